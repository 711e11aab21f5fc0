// The drafters as a DraftSource: assigns each session to one of them, validates their drafts, and
// watches their speed. Its DrafterRoster has those that are attached. Neither knows a network or
// threads: a drafter is a DrafterLink, time is a Clock.
//
// Thread: the engine thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/spec/drafting.h"
#include "verifier/engine/draft_source.h"
#include "verifier/engine/metrics.h"
#include "verifier/pool/assignments.h"
#include "verifier/pool/drafter_choice.h"
#include "verifier/pool/drafter_fit.h"
#include "verifier/pool/drafter_roster.h"

namespace outrider {

class DrafterPool final : public DraftSource {
 public:
  DrafterPool(TargetIdentity target, const DraftDistributionLimits& distribution_limits,
              VerifierMetrics* metrics, const Clock* clock,
              const DrafterRosterOptions& options = {});

  // Receives the drafts. Set before a drafter joins.
  void set_consumer(DraftConsumer* consumer) { consumer_ = consumer; }

  // Who is attached. Thread: any; see its functions.
  DrafterRoster& roster() { return roster_; }
  const DrafterRoster& roster() const { return roster_; }

  // Drafts from a drafter's stream, `bytes` on the wire, which arrived at `arrived` (a step of the
  // engine may have kept them waiting since), or now. If they violate the protocol, or have more
  // parts than were requested, the stream is closed with a reason and its sessions are freed.
  void OnDrafts(uint64_t drafter, std::vector<DraftPart> parts, size_t bytes,
                std::optional<Time> arrived = std::nullopt);

  bool HasRoom(int tokens) override;
  void Open(SessionOpening opening) override;
  void Decide(SessionVerdict decision) override;
  const DraftTree* EarlyDraft(uint64_t session) const override;
  void Close(uint64_t session) override;
  void RecordAccepted(uint64_t session, int tokens) override;
  void Flush() override;
  DraftTimeout SetTimeout(uint64_t session, Duration worth, Duration step) override;
  void MarkLate(uint64_t session) override;
  bool ReassignSession(uint64_t session) override;
  std::optional<DraftTiming> Timing(uint64_t session, int tokens) override;
  std::string DrafterName(uint64_t session) const override;

 private:
  // Takes one part and its chunk. kInvalidArgument: it violates the protocol.
  Status TakePart(uint64_t id, DraftPart& part, Time arrived);
  // The same for a draft that was sent early.
  Status TakeEarly(ConnectedDrafter& drafter, Assignment& assignment, DraftPart part, Time arrived);
  // Records that a draft sent early answers the assignment's last plan, for which it was waited so
  // many seconds.
  void RecordEarly(ConnectedDrafter& drafter, Assignment& assignment, double waited);
  // Takes a part for a closed session (`assignment` is nullptr) or for an older plan, which crossed
  // our message. kInvalidArgument: there are more such parts than were ever requested.
  Status TakeCrossing(ConnectedDrafter& drafter, Assignment* assignment, const DraftPart& part,
                      Time arrived);
  // The drafter refuses the session or gives it up.
  void TakeRefusal(uint64_t session, ConnectedDrafter& drafter, const Assignment& assignment,
                   Time arrived);
  // The whole draft of the assignment's last plan has arrived: learns from its times.
  void RecordDraft(ConnectedDrafter& drafter, Assignment& assignment, double seconds_drafting,
                   Time arrived);
  // Reports whether the drafter has become suspended or has resumed since `before`.
  void ReportSuspension(uint64_t id, const ConnectedDrafter& drafter, bool before);
  // Begins a trial of the drafter, if it is suspended and one is due. Returns whether it did.
  bool BeginTrialIfDue(ConnectedDrafter& drafter);
  // Chooses a drafter for a session of `tokens` tokens. nullopt: none has room.
  std::optional<uint64_t> Choose(int tokens, bool try_silent) const;
  // The same for a session that has none; the roster records who has no room for it.
  std::optional<uint64_t> ChooseForNew(int tokens);

  VerifierMetrics* const metrics_;
  const Clock* const clock_;
  DraftConsumer* consumer_ = nullptr;
  Assignments assignments_;
  // Of this step, by drafter: each gets its own as one message.
  std::map<uint64_t, std::vector<SessionVerdict>> decisions_;
  Time next_awaited_trial_;
  DrafterRoster roster_;
};

}  // namespace outrider
