// Plans each sequence's rounds and gets their drafts: from the verifier's own proposers, or from a
// drafter by way of DraftSource. SessionPlanner weighs a draft's cost against its benefit,
// DraftingState tracks its progress.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/grammar/grammar_masks.h"
#include "verifier/engine/admission.h"
#include "verifier/engine/draft_source.h"
#include "verifier/engine/engine_observer.h"
#include "verifier/engine/metrics.h"
#include "verifier/engine/planner.h"
#include "verifier/engine/session.h"
#include "verifier/engine/step_pace.h"

namespace outrider {

class DraftExchange final : public DraftConsumer {
 public:
  // What it works with; all must outlive it. `drafts` may be nullptr.
  struct Parts {
    SessionTable* sessions = nullptr;
    const Admission* admission = nullptr;
    const StepPace* pace = nullptr;
    EngineObservers* observers = nullptr;
    DraftSource* drafts = nullptr;
    const Clock* clock = nullptr;
    grammar::MaskScratch* mask_scratch = nullptr;
    int max_forced_tokens = 0;  // of a round
  };

  // `planner`: chooses what each round drafts, where the request leaves it open; without, rounds
  // are as the request or the engine's defaults say. `kv_tokens`: tokens that the whole KV cache
  // holds. `metrics` may be nullptr.
  DraftExchange(const Parts& parts, const std::optional<PlannerOptions>& planner, int kv_tokens,
                VerifierMetrics* metrics);

  DraftExchange(const DraftExchange&) = delete;
  DraftExchange& operator=(const DraftExchange&) = delete;

  // A new session, before it is planned; its request and resolved speculation are set.
  void Open(Session& session);
  // Plans the round of a session that was just admitted, unless a draft is to be scored first.
  void PlanAdmitted(Session& session);
  // Chooses the session's next round, and asks a drafter if it is to have one.
  void PlanNext(Session& session);
  // The deadline of the session's draft has passed: the round goes on with the part that has come.
  // REQUIRES: session.awaits_draft().
  void MarkLate(Session& session);
  // The session is over.
  void Close(const Session& session);
  // No plans from now on.
  void Drain() { draining_ = true; }
  bool draining() const { return draining_; }
  // Sends what the calls before have gathered.
  void Flush();
  // A forward pass over `sequences`, their rounds' ends included, took `seconds`. `context`: tokens
  // whose KV it read.
  void OnForward(int sequences, int rows, int64_t context, double seconds);

  // Of the session's drafter, "" without one.
  std::string DrafterName(const Session& session) const;

  void OnDraft(uint64_t session, uint32_t round, const DraftTree& draft, bool complete) override;
  void OnDrafterLost(uint64_t session) override;
  void OnDrafterBack(uint64_t session) override;
  void OnRefused(uint64_t session) override;

 private:
  Session* Find(uint64_t session) const;
  // Draft tokens that a round of the session may have.
  int DraftRoom(const Session& session) const;
  // What to draft next as asked, as far as output and room go. Length 0: nothing now.
  DraftShape NextShape(const Session& session) const;
  NextRound ChooseRound(Session& session);
  // Where the session's grammar leaves one token to come next, these are the round's draft, and
  // no drafter is asked for one. Whether it does.
  bool DraftForced(Session& session);
  // The part of a draft of the verifier's own that the session's grammar may go on with.
  DraftTree Readable(const Session& session, DraftTree draft);
  // Of the acceptance head, where the plan names none; 0: the drafter's own.
  float HeadThreshold(const Session& session) const;
  // Sends a drafter the plan of `shape`.
  void SendPlan(Session& session, const DraftShape& shape, const StopRule& stop);
  // How long plain decoding takes for as many tokens as a draft of this shape may save.
  Duration Worth(const Session& session, const DraftShape& shape) const;

  const Parts parts_;
  std::optional<Planner> planner_;
  const int kv_tokens_;
  bool draining_ = false;
};

}  // namespace outrider
