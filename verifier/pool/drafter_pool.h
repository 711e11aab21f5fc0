// The drafters that are connected, which of them serves which session, and what each has shown of
// its speed. Pure: a drafter is a DrafterLink, time is a Clock.
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
#include "verifier/pool/estimate.h"
#include "verifier/pool/punctuality.h"

namespace outrider {

// What the pool sends to one drafter. Calls must not wait.
class DrafterLink {
 public:
  virtual ~DrafterLink() = default;
  virtual void SendWelcome(const DrafterWelcome& welcome) = 0;
  virtual void SendOpen(SessionOpening opening) = 0;
  virtual void SendDecisions(std::vector<RoundDecision> decisions) = 0;
  virtual void SendClose(uint64_t session) = 0;
  virtual void SendDrain() = 0;
  // Ends the stream with a reason.
  virtual void Close(const Status& reason) = 0;
};

struct TargetIdentity {
  std::string model;
  TokenizerFingerprint tokenizer;
  int vocab_size = 0;  // rows of the target's logits
};

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
  bool silent = false;  // as Punctuality has it
};

class DrafterPool final : public DraftSource {
 public:
  DrafterPool(TargetIdentity target, const DraftLawLimits& law_limits, VerifierMetrics* metrics,
              const Clock* clock);

  // Where drafts go; set before the first Join.
  void set_consumer(DraftConsumer* consumer) { consumer_ = consumer; }

  // What every drafter is welcomed with. Thread: any.
  const DraftLawLimits& law_limits() const { return law_limits_; }

  // A drafter said hello. kFailedPrecondition with words that say what differs refuses it (the
  // caller closes the stream); else it is welcomed and takes sessions from now on.
  Status Join(uint64_t drafter, const DrafterHello& hello, std::shared_ptr<DrafterLink> link);
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
  void Decide(RoundDecision decision) override;
  void Close(uint64_t session) override;
  void Flush() override;
  DraftTimeout SetTimeout(uint64_t session, Duration worth) override;
  void MarkLate(uint64_t session) override;
  bool ReassignSession(uint64_t session) override;
  std::optional<DraftTiming> Timing(uint64_t session, int tokens) override;
  std::string DrafterName(uint64_t session) const override;

  std::vector<DrafterSnapshot> Snapshot() const;

 private:
  struct Drafter {
    DrafterHello hello;
    std::shared_ptr<DrafterLink> link;
    Time joined;
    int sessions = 0;
    uint64_t drafted_tokens = 0;
    uint64_t accepted_tokens = 0;
    DrafterLoad load;  // as it says
    Time heard;        // something came from it
    // Times of its whole drafts. While they are late it is suspended: it gets no sessions but, now
    // and then, one to try it.
    Punctuality punctuality;
    // Parts that may still come for plans that were closed or went on without their draft.
    uint64_t crossing = 0;
    Estimate drafting;                     // of punctuality's round trip, the drafter's own part
    Estimate depth;                        // of that, for one depth
    std::vector<RoundDecision> decisions;  // of this step, sent as one message
  };
  // A plan whose draft was not whole when the next one was sent.
  struct Overdue {
    uint32_t round = 0;  // 0: none
    Time sent;
  };
  struct Assignment {
    uint64_t drafter = 0;
    int tokens = 0;  // that it has been told of
    DraftPlan plan;  // the last one sent
    Time sent;
    Time opened;
    bool trial = false;          // opened at a suspended drafter
    bool awaited_trial = false;  // whose drafts are waited for until one is late
    double worth = 0;            // of the draft, as SetTimeout was told; seconds
    bool late = false;           // its deadline has passed
    Overdue overdue;
    DraftKind kind = DraftKind::kSampled;
    DraftTree draft;                              // what of its draft has come
    bool complete = false;                        // nothing more will come
    int parts = 0;                                // that have come
    int late_in_a_row = 0;                        // drafts that did not come in time
    double last_seconds = DraftTiming::kUnknown;  // of its last whole draft, as the drafter says
    bool fresh = true;                            // no whole draft has come yet
    // The drafter reads many tokens before this draft: it says little about later ones.
    bool reads = true;
  };

  Status Check(const DrafterHello& hello) const;
  // Parts that may still come for the last plan: each holds a depth at least, or is a refusal.
  static uint64_t PartsToCome(const Assignment& assignment);
  // Closes the stream of a drafter that broke the protocol, with the reason.
  void Expel(uint64_t drafter, const Status& reason);
  // Adds a part to the session's draft.
  Status Take(Assignment& assignment, DraftPart& part) const;
  // A part for a session that is closed, or for a plan before the last one: it crossed our message.
  // False: there are more such parts than were ever asked for.
  bool TakeCrossing(Drafter& drafter, Assignment* assignment, const DraftPart& part);
  // The whole draft of the assignment's last plan is here: learns from its times.
  void RecordDraft(Drafter& drafter, Assignment& assignment, double seconds_drafting);
  // Tells of a change between suspended and not, if there was one since `before`.
  void ReportSuspension(uint64_t id, const Drafter& drafter, bool before);
  // Uses the drafter's turn to be tried, if it is suspended and one is due: false when not.
  bool BeginTrialIfDue(Drafter& drafter);
  void CountSilent();
  // The plan as this drafter can serve it.
  static DraftPlan Bounded(const DraftPlan& plan, const DrafterHello& hello);
  // Frees a drafter's sessions and forgets it.
  void Drop(uint64_t drafter);
  // When the first draft of one more session may be expected: the network's part as it is, the
  // drafter's as it grows with the sessions that share its passes. A drafter that was not measured
  // yet comes first with its first session, and last with more.
  static double ExpectedSeconds(const Drafter& drafter);
  // Sessions that it holds, as far as we know: other verifiers have theirs.
  static int Sessions(const Drafter& drafter);
  // Whether it may take one more session of so many tokens.
  bool Takes(const Drafter& drafter, int tokens) const;
  // The drafter that is likely to draft soonest, of those that take the session; with
  // `try_silent` before all a suspended one that is due to be tried. nullptr: none.
  Drafter* Best(int tokens, bool try_silent, uint64_t* id);

  TargetIdentity target_;
  const DraftLawLimits law_limits_;
  VerifierMetrics* metrics_;
  const Clock* clock_;
  DraftConsumer* consumer_ = nullptr;
  bool draining_ = false;
  std::map<uint64_t, Drafter> drafters_;
  Time next_awaited_trial_;
  std::set<uint64_t> leaving_;                  // left, and why is not known yet
  std::map<uint64_t, Assignment> assignments_;  // by session
};

}  // namespace outrider
