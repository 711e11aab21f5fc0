// Who is attached to the verifier: drafters join and leave, are refused, or give their place to
// others, and are told how many the verifier wants.
//
// Owner: DrafterPool, which asks them for drafts. Thread: the engine thread, unless a function says
// otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/spec/drafter_demand.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/drafting.h"
#include "verifier/engine/metrics.h"
#include "verifier/pool/assignments.h"
#include "verifier/pool/demand.h"
#include "verifier/pool/drafter_choice.h"
#include "verifier/pool/drafter_fit.h"
#include "verifier/pool/drafter_link.h"

namespace outrider {

// Why a drafter's stream ended, unless the verifier closed it.
enum class StreamEnd {
  kClosed,         // the drafter ended it
  kGone,           // the connection broke
  kProtocolError,  // an unreadable message, or one out of turn
  kOverload,       // too many messages waited, on either side, or for too long
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

struct DrafterRosterOptions {
  double min_draft_wait = 0;  // seconds, as Punctuality has it
  // Further drafters are refused with kResourceExhausted, and go to another verifier, unless an
  // attached one has been of no use for a minute: that one gives its place. Of no use are drafters
  // that are silent (see Punctuality), have no room for the sessions that ask, or do not answer the
  // vocabulary.
  int max_drafters = 64;
  std::string zone;  // told to drafters; "": unknown
};

class DrafterRoster {
 public:
  // `assignments` has the drafters' sessions. `on_drop` is called when a drafter is gone, with its
  // id, and frees its sessions.
  DrafterRoster(TargetIdentity target, const DraftDistributionLimits& distribution_limits,
                VerifierMetrics* metrics, const Clock* clock, const DrafterRosterOptions& options,
                const Assignments* assignments, std::function<void(uint64_t)> on_drop);

  // Thread: any.
  const TargetIdentity& target() const { return target_; }
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
  // Tells the drafters that the verifier is about to end. From now on no drafter joins.
  void Drain();
  // Tells the drafters how many the verifier wants under this load, where that has changed since
  // they were told last. Call it once in a while: a drafter that joins is told at once, but the
  // others are not told then.
  void TellDemand(const RequestLoad& load);
  std::vector<DrafterSnapshot> Snapshot() const;

  // For DrafterPool:

  bool draining() const { return draining_; }
  // Those that were welcomed.
  const ConnectedDrafters& drafters() const { return drafters_; }
  // One of them, to record what it does. REQUIRES: it is among them.
  ConnectedDrafter& At(uint64_t drafter) { return drafters_.at(drafter); }
  // Bound of the token ids in a draft.
  int vocab_limit() const;
  // A session of `tokens` tokens asks for a drafter: records which ones have no room for it.
  void RecordFull(int tokens);
  // Updates the metrics of attached drafters. Call it when one may have become silent, or no longer
  // is.
  void CountDrafters();
  // Closes the stream of a drafter that violated the protocol, with the reason.
  void Expel(uint64_t drafter, const Status& reason);

 private:
  // A drafter that has been sent the target's vocabulary.
  struct Translator {
    DrafterHello hello;
    std::shared_ptr<DrafterLink> link;
    Time asked;
  };
  // A drafter that is gone, for a reason not known yet.
  struct Leaving {
    std::string name;
    int sessions = 0;  // that it held
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
  // Forgets the drafter; its sessions are freed.
  void Drop(uint64_t id);

  const TargetIdentity target_;
  const DraftDistributionLimits distribution_limits_;
  const DrafterRosterOptions options_;
  VerifierMetrics* const metrics_;
  const Clock* const clock_;
  const Assignments* const assignments_;
  const std::function<void(uint64_t)> on_drop_;
  bool draining_ = false;
  std::map<uint64_t, Translator> translators_;  // not welcomed yet
  ConnectedDrafters drafters_;
  RequestLoad load_;  // as TellDemand was told last
  std::map<uint64_t, Leaving> leaving_;
};

}  // namespace outrider
