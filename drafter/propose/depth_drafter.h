// Catches sessions up and drafts: runs one forward pass over their shares, samples the next depth
// of each draft whose logits are computed, and sends the parts that are due.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <span>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "drafter/propose/draft_forward.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/propose/draft_sender.h"
#include "drafter/propose/draft_sessions.h"
#include "drafter/propose/head_learner.h"
#include "drafter/propose/pass_plan.h"

namespace outrider {

class DepthDrafter {
 public:
  // All must outlive it.
  struct Parts {
    DraftSessions* sessions = nullptr;
    DraftForward* forward = nullptr;
    HeadLearner* head = nullptr;
    DraftSender* sender = nullptr;
    DraftObservers* observers = nullptr;
    const Clock* clock = nullptr;
  };

  // A draft of fixed length is sent in parts of `chunk_depths` depths, at least 1; others a depth
  // at a time.
  DepthDrafter(const Parts& parts, int chunk_depths) : parts_(parts), chunk_depths_(chunk_depths) {}

  const Parts& parts() const { return parts_; }

  // Runs one forward pass. If it fails, all its sessions are refused. REQUIRES: `shares` is not
  // empty; either all are the sessions' own, or all are guesses.
  void Run(std::span<const PassShare> shares);

  // Samples the session's next depth, see Mirror::DrawDepth, sends the parts that are due and adds
  // the draft tokens to `report`. Returns false if the logits were broken: the session was then
  // refused and is gone.
  bool Draw(HeldSession& held, std::span<const PickedRow> rows, std::span<const float> accepted,
            std::span<const float> states, StepReport* report);
  // Depths that the session drafts until a part of its draft is due.
  int DepthsDue(const DraftSession& session) const;
  void RefuseAll(std::span<const PassShare> shares, const Status& why);

 private:
  void Process(const PassShare& share, const ShareRows& computed, StepReport* report);

  const Parts parts_;
  const int chunk_depths_;
};

}  // namespace outrider
