// The drafters as a DraftSource: assigns each session to one of them, validates their drafts, and
// watches their speed. It knows no network and no threads: a drafter is a DrafterLink, time is a
// Clock.
//
// Thread: the engine thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/drafting.h"
#include "common/text/fingerprint.h"
#include "verifier/engine/draft_source.h"
#include "verifier/engine/metrics.h"
#include "verifier/pool/assignments.h"
#include "verifier/pool/demand.h"
#include "verifier/pool/drafter_choice.h"
#include "verifier/pool/drafter_fit.h"
#include "verifier/pool/drafter_link.h"

namespace outrider {

// Why a drafter's stream ended, unless the pool closed it.
enum class StreamEnd {
  kClosed,         // the drafter ended it
  kGone,           // the connection broke
  kProtocolError,  // an unreadable message, or one out of turn
  kOverload,       // too many messages waited, on either side
};

struct DrafterSnapshot {
  std::string name;
  std::string model;
  int sessions = 0;
  int max_sessions = 0;
  double connected_seconds = 0;
  uint64_t drafted_tokens = 0;
  uint64_t accepted_tokens = 0;
  double round_trip_ms = 0;
  double drafting_ms = 0;
  int reported_sessions = 0;
  bool acceptance_head = false;
  bool silent = false;                   // see Punctuality
  std::optional<VocabularyMatch> match;  // nullopt: it has the target's vocabulary
  int target_tokens = 0;                 // of the target, if the vocabularies differ
};

struct DrafterPoolOptions {
  double min_draft_wait = 0;  // seconds, as Punctuality has it
  // Further drafters are refused with kResourceExhausted, and go to another verifier, unless an
  // attached one has been of no use for a minute: that one gives its place. Of no use are drafters
  // that are silent (see Punctuality), have no room for the sessions that ask, or do not answer the
  // vocabulary.
  int max_drafters = 64;
  std::string zone;  // told to drafters; "": unknown
};

class DrafterPool final : public DraftSource {
 public:
  DrafterPool(TargetIdentity target, const DraftDistributionLimits& distribution_limits,
              VerifierMetrics* metrics, const Clock* clock, const DrafterPoolOptions& options = {});

  // Receives the drafts. Set before the first Join.
  void set_consumer(DraftConsumer* consumer) { consumer_ = consumer; }

  // What every drafter is told on joining. Thread: any.
  const DraftDistributionLimits& distribution_limits() const { return distribution_limits_; }

  // Handles a drafter's hello. It is welcomed and takes sessions from now on, or refused with
  // kFailedPrecondition and the difference, or with kResourceExhausted if there are as many as may
  // be, and the caller closes the stream. A visit is welcomed, told the demand, and its stream
  // closed. If its vocabulary differs and it translates, it is sent the target's instead, and is
  // welcomed once it has reported how well they match.
  Status Join(uint64_t drafter, const DrafterHello& hello, std::shared_ptr<DrafterLink> link);
  // Handles the answer to the vocabulary. Refuses it, like Join, with kFailedPrecondition (it
  // shares too little, or was sent none) or kInvalidArgument (its numbers do not fit).
  Status OnMatch(uint64_t drafter, const VocabularyMatch& match);
  void OnLoad(uint64_t drafter, const DrafterLoad& load);
  // The drafter is gone; its sessions go on without it.
  void Leave(uint64_t drafter);
  // Its stream is over, and why. May be called some time after Leave.
  void OnStreamEnd(uint64_t drafter, StreamEnd why);
  // Drafts from its stream, `bytes` on the wire, which arrived at `arrived` (a step of the engine
  // may have kept them waiting since), or now. If they violate the protocol, or have more parts
  // than were requested, the stream is closed with a reason and its sessions are freed.
  void OnDrafts(uint64_t drafter, std::vector<DraftPart> parts, size_t bytes,
                std::optional<Time> arrived = std::nullopt);
  void Drain();
  // Tells the drafters how many the verifier wants under this load, where that has changed since
  // they were told last. Call it once in a while: a drafter that joins is told at once, but the
  // others are not told then.
  void TellDemand(const RequestLoad& load);

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

  std::vector<DrafterSnapshot> Snapshot() const;

 private:
  // A drafter that has been sent the target's vocabulary.
  struct Translator {
    DrafterHello hello;
    std::shared_ptr<DrafterLink> link;
    Time asked;
  };

  // Whether one more drafter may attach, if need be in the place of one that has been of no use for
  // a minute, whose stream is closed.
  bool MakeRoom();
  // Closes the stream of a drafter that has been of no use since then.
  void Displace(uint64_t id, Time since);
  // Logs and counts the refusal, and returns `why`.
  Status Refuse(const DrafterHello& hello, Status why) const;
  DrafterDemand Demand() const;
  // Sends it, if it is not what this drafter was told last.
  static void TellDemand(ConnectedDrafter& drafter, const DrafterDemand& demand);
  DrafterWelcome WelcomeFor(const DrafterHello& hello, int rows) const;
  void Welcome(uint64_t id, DrafterHello hello, std::shared_ptr<DrafterLink> link,
               std::optional<VocabularyMatch> match);
  // Updates the metrics of connected drafters.
  void CountConnected();
  // Bound of the token ids in a draft.
  int vocab_limit() const;
  // Closes the stream of a drafter that violated the protocol, with the reason.
  void Expel(uint64_t id, const Status& reason);
  // Takes one part and its chunk. kInvalidArgument: it violates the protocol.
  Status TakePart(uint64_t id, ConnectedDrafter& drafter, DraftPart& part, Time arrived);
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
  void TakeRefusal(uint64_t session, ConnectedDrafter& drafter, const Assignment& assignment);
  // The whole draft of the assignment's last plan has arrived: learns from its times.
  void RecordDraft(ConnectedDrafter& drafter, Assignment& assignment, double seconds_drafting,
                   Time arrived);
  // Reports whether the drafter has become suspended or has resumed since `before`.
  void ReportSuspension(uint64_t id, const ConnectedDrafter& drafter, bool before);
  // Begins a trial of the drafter, if it is suspended and one is due. Returns whether it did.
  bool BeginTrialIfDue(ConnectedDrafter& drafter);
  void CountSilent();
  // Frees a drafter's sessions and forgets the drafter.
  void Drop(uint64_t id);
  // A session of `tokens` tokens asks for a drafter: records which ones have no room for it.
  void RecordFull(int tokens);
  // Chooses a drafter for a session of `tokens` tokens. nullopt: none has room.
  std::optional<uint64_t> Choose(int tokens, bool try_silent) const;
  // The same for a session that has none, and RecordFull.
  std::optional<uint64_t> ChooseForNew(int tokens);

  const TargetIdentity target_;
  const DraftDistributionLimits distribution_limits_;
  const DrafterPoolOptions options_;
  VerifierMetrics* const metrics_;
  const Clock* const clock_;
  DraftConsumer* consumer_ = nullptr;
  bool draining_ = false;
  std::map<uint64_t, Translator> translators_;  // not welcomed yet
  ConnectedDrafters drafters_;
  Assignments assignments_;
  // Of this step, by drafter: each gets its own as one message.
  std::map<uint64_t, std::vector<SessionVerdict>> decisions_;
  Time next_awaited_trial_;
  RequestLoad load_;  // as TellDemand was told last
  // A drafter that is gone, for a reason not known yet.
  struct Leaving {
    std::string name;
    int sessions = 0;  // that it held
  };
  std::map<uint64_t, Leaving> leaving_;
};

}  // namespace outrider
