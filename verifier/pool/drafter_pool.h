// The drafters as a DraftSource: gives each session to one of them, checks their drafts, and
// watches how fast they are. It knows no network and no threads: a drafter is a DrafterLink, time
// is a Clock.
//
// Thread: the engine thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
#include "verifier/pool/drafter_choice.h"
#include "verifier/pool/drafter_link.h"

namespace outrider {

struct TargetIdentity {
  std::string model;
  TokenizerFingerprint tokenizer;
  int vocab_size = 0;  // rows of the target's logits
  // For drafters of another vocabulary; nullptr: these are refused.
  std::shared_ptr<const VocabularyEntries> vocabulary = nullptr;
};

// Of a drafter's tokens, the target must have so many too.
inline constexpr double kLeastSharedTokens = 0.7;

// Why a drafter's stream ended, but for one that the pool closed itself.
enum class StreamEnd {
  kClosed,         // the drafter ended it
  kGone,           // the connection broke
  kProtocolError,  // a message that cannot be read, or out of turn
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
  bool silent = false;                   // as Punctuality has it
  std::optional<VocabularyMatch> match;  // no value: its vocabulary is the target's
  int target_tokens = 0;                 // where it is not
};

class DrafterPool final : public DraftSource {
 public:
  // `min_draft_wait`: seconds, as Punctuality has it.
  DrafterPool(TargetIdentity target, const DraftDistributionLimits& distribution_limits,
              VerifierMetrics* metrics, const Clock* clock, double min_draft_wait = 0);

  // Where drafts go; set before the first Join.
  void set_consumer(DraftConsumer* consumer) { consumer_ = consumer; }

  // What every drafter is welcomed with. Thread: any.
  const DraftDistributionLimits& distribution_limits() const { return law_limits_; }

  // A drafter said hello. kFailedPrecondition with words that say what differs refuses it (the
  // caller closes the stream); else it is welcomed and takes sessions from now on.
  // Where its vocabulary is another one and it translates, it is sent the target's instead, and is
  // welcomed once it has said how far the two are the same.
  Status Join(uint64_t drafter, const DrafterHello& hello, std::shared_ptr<DrafterLink> link);
  // The answer to the vocabulary. kFailedPrecondition: it shares too little, or was sent none;
  // kInvalidArgument: its numbers do not fit. Both refuse it, as by Join.
  Status OnMatch(uint64_t drafter, const VocabularyMatch& match);
  void OnLoad(uint64_t drafter, const DrafterLoad& load);
  // Nothing more will come from it: its sessions go on without it.
  void Leave(uint64_t drafter);
  // Its stream is over, and why; may come some time after Leave.
  void OnStreamEnd(uint64_t drafter, StreamEnd why);
  // Drafts from its stream, `bytes` on the wire. Those that break the protocol, and more parts than
  // it was asked for, close the stream with a reason and free its sessions.
  void OnDrafts(uint64_t drafter, std::vector<DraftPart> parts, size_t bytes);
  void Drain();

  bool HasRoom(int tokens) override;
  void Open(SessionOpening opening) override;
  void Decide(SessionVerdict decision) override;
  const DraftTree* EarlyDraft(uint64_t session) const override;
  void Close(uint64_t session) override;
  void Flush() override;
  DraftTimeout SetTimeout(uint64_t session, Duration worth) override;
  void MarkLate(uint64_t session) override;
  bool ReassignSession(uint64_t session) override;
  std::optional<DraftTiming> Timing(uint64_t session, int tokens) override;
  std::string DrafterName(uint64_t session) const override;

  std::vector<DrafterSnapshot> Snapshot() const;

 private:
  // A drafter that was sent the target's vocabulary.
  struct Translator {
    DrafterHello hello;
    std::shared_ptr<DrafterLink> link;
  };

  Status Check(const DrafterHello& hello) const;
  // "": it is the target's.
  std::string TokenizerMismatch(const DrafterHello& hello) const;
  Status CheckMatch(const DrafterHello& hello, const VocabularyMatch& match) const;
  int target_tokens() const {
    return target_.vocabulary == nullptr ? 0 : target_.vocabulary->tokens();
  }
  // `why`, logged and counted.
  Status Refuse(const DrafterHello& hello, Status why) const;
  void Welcome(uint64_t id, DrafterHello hello, std::shared_ptr<DrafterLink> link,
               std::optional<VocabularyMatch> match);
  // Tells the metrics who is connected.
  void CountConnected();
  // Ids that a draft may hold are below.
  int vocab_limit() const;
  // Closes the stream of a drafter that broke the protocol, with the reason.
  void Expel(uint64_t id, const Status& reason);
  // Takes one part, and its chunk. kInvalidArgument: it breaks the protocol.
  Status TakePart(uint64_t id, ConnectedDrafter& drafter, DraftPart& part);
  // The same for a draft that was sent early.
  Status TakeEarly(ConnectedDrafter& drafter, Assignment& assignment, DraftPart part);
  // The assignment's last plan has a draft that was sent early.
  void RecordEarly(ConnectedDrafter& drafter, Assignment& assignment);
  // A part for a session that is closed (`assignment` is nullptr), or for a plan before the last
  // one: it crossed our message. kInvalidArgument: there are more such parts than were ever asked
  // for.
  Status TakeCrossing(ConnectedDrafter& drafter, Assignment* assignment, const DraftPart& part);
  // The drafter does not take the session, or gives it up.
  void TakeRefusal(uint64_t session, ConnectedDrafter& drafter, const Assignment& assignment);
  // The whole draft of the assignment's last plan is here: learns from its times.
  void RecordDraft(ConnectedDrafter& drafter, Assignment& assignment, double seconds_drafting);
  // Tells of a change between suspended and not, if there was one since `before`.
  void ReportSuspension(uint64_t id, const ConnectedDrafter& drafter, bool before);
  // Uses the drafter's turn to be tried, if it is suspended and one is due: false when not.
  bool BeginTrialIfDue(ConnectedDrafter& drafter);
  void CountSilent();
  // Frees a drafter's sessions and forgets it.
  void Drop(uint64_t id);
  // For a session of so many tokens. nullopt: no drafter has room.
  std::optional<uint64_t> Choose(int tokens, bool try_silent) const;

  const TargetIdentity target_;
  const DraftDistributionLimits law_limits_;
  const double min_draft_wait_;
  VerifierMetrics* const metrics_;
  const Clock* const clock_;
  DraftConsumer* consumer_ = nullptr;
  bool draining_ = false;
  std::map<uint64_t, Translator> translators_;  // not welcomed yet
  ConnectedDrafters drafters_;
  Assignments assignments_;
  Time next_awaited_trial_;
  std::set<uint64_t> leaving_;  // left, and why is not known yet
};

}  // namespace outrider
