// Chooses which of the known verifiers a drafter serves: at most `size` of them, so that neither
// side holds more streams than it can use, however large the fleet is.
//
// Order. Each drafter ranks all addresses by rendezvous hashing (highest random weight: Thaler and
// Ravishankar 1998) of its own name and the address, and fills its subset from the front. Drafters
// rank independently, so every verifier gets its share, and an address that comes or goes moves no
// other stream. The load is bounded by the verifiers: one that is full refuses, and the drafter
// goes on to the next in rank.
//
// Rebalancing. Once a period the drafter visits one verifier that it does not serve, to learn what
// that wants (DrafterDemand). If it helps more there than at one that it serves, it attaches to the
// new one, and then leaves the old one, whose sessions may finish first. Each drafter moves only
// with the probability that evens the two out, because others that see the same do so as well.
// Every other visit is to a verifier that the drafter has lost, if there is one: all its drafters
// have lost it, so it has none when it is back.
//
// Zones. A verifier of the own zone is preferred to others as long as it is not much better served.
// Zones are learnt on attaching or visiting.
//
// It decides only, and opens no connection: the caller carries out what Advance returns and reports
// what happens. Times come from the caller. Memory grows with the addresses that were attached to
// or visited.
//
// Thread: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/spec/drafter_demand.h"

namespace outrider {

// The most streams of a subset. One more may be on the way for a move, streams that were left may
// drain beside them, and one may visit. No move begins while a quarter of `size` drains, but all
// may drain at once when the addresses change.
inline constexpr int kMaxSubset = 48;

struct SubsetOptions {
  std::string drafter;  // its name; drafters of one name have the same ranks
  int size = 8;         // streams to hold, in [1, kMaxSubset]
  std::string zone;     // "": none is preferred
  // The mean time between two visits; each pause is drawn from half of it to one and a half.
  Duration rebalance = std::chrono::seconds(30);
  // A verifier that is not attached for so long is replaced, if another one is known.
  Duration lost = std::chrono::seconds(10);
};

// Why a stream is attached or left.
enum class SubsetReason {
  kFill,     // fewer than `size` were held
  kGone,     // its address is no longer known
  kLost,     // it was not attached for too long
  kRefused,  // the verifier refuses this drafter or is full
  kDemand,   // another verifier needs the drafter more
  kZone,     // another verifier is in the drafter's zone
};
inline constexpr std::array kLeaveReasons = {SubsetReason::kGone, SubsetReason::kLost,
                                             SubsetReason::kRefused, SubsetReason::kDemand,
                                             SubsetReason::kZone};

// The name of the reason in logs and metrics.
const char* ToString(SubsetReason reason);

struct SubsetChange {
  enum class Kind {
    kAttach,  // open a stream and keep it open; the address may still be draining
    kLeave,   // take no new sessions, and close the stream after the last one; report OnLeft
    kVisit,   // ask what the verifier wants; report OnVisited or OnFailed
  };
  Kind kind = Kind::kAttach;
  SubsetReason reason = SubsetReason::kFill;
  std::string address;
  friend bool operator==(const SubsetChange&, const SubsetChange&) = default;
};

class VerifierSubset {
 public:
  using Addresses = std::shared_ptr<const std::vector<std::string>>;

  VerifierSubset(SubsetOptions options, Time now);

  // All verifiers, in ascending order, each once. Costs a comparison of each, and a binary search
  // by hashes for each new one.
  void SetAddresses(Addresses addresses);

  // A stream of the subset was welcomed. `zone`: the verifier's; "": unknown.
  void OnAttached(const std::string& address, const std::string& zone);
  // It ended, and is being dialled again.
  void OnDetached(const std::string& address, Time now);
  // The verifier refused it. It is dialled again unless it is left.
  void OnRefused(const std::string& address, Time now);
  // What a verifier of the subset wants now.
  void OnDemand(const std::string& address, const DrafterDemand& demand);
  // A stream that was left is closed.
  void OnLeft(const std::string& address);
  // A visit's result. Without `demand` the verifier speaks an older protocol.
  void OnVisited(const std::string& address, const std::string& zone,
                 std::optional<DrafterDemand> demand, Time now);
  // The visit reached nobody, or was refused.
  void OnFailed(const std::string& address, Time now);

  // What to do now, in this order. Call after any of the above, and at next().
  std::vector<SubsetChange> Advance(Time now);
  // When Advance is due if nothing happens before.
  Time next() const { return next_; }

  // Streams of the subset, without those that drain.
  int held() const { return static_cast<int>(held_.size()); }
  bool holds(const std::string& address) const { return held_.contains(address); }
  // Streams that drain.
  int leaving() const { return static_cast<int>(leaving_.size()); }
  // Attached streams of the subset to verifiers known to be in another zone.
  int in_other_zone() const;

 private:
  struct Held {
    std::optional<Time> away_since;  // not attached; nullopt: attached
    bool refused = false;            // since it was attached last
    std::optional<DrafterDemand> demand;
    // The verifier that this one replaces once it is attached, and why; "": none.
    std::string replaces;
    SubsetReason reason = SubsetReason::kFill;
  };
  // What is remembered about an address.
  struct Memory {
    std::string zone;   // "": unknown
    int failures = 0;   // since it was attached last: refusals, losses and failed visits
    Time not_before{};  // do not attach or visit earlier
    bool lost = false;  // it was left because it was away; nobody heard of it since
  };
  struct Move {
    std::string from;
    SubsetReason reason = SubsetReason::kDemand;
    double probability = 0;
  };
  enum class Zone { kOwn, kUnknown, kOther };

  bool Knows(const std::string& address) const;
  uint64_t Weight(const std::string& address) const;
  Zone ZoneOf(const std::string& address) const;
  void LearnZone(const std::string& address, const std::string& zone);
  void BackOff(const std::string& address, Time now);
  bool MayTry(const std::string& address, Time now) const;
  // The first in rank that may be attached to, one of the own zone before others; nullptr: none.
  const std::string* Candidate(Time now) const;
  void Attach(const std::string& address, SubsetReason reason, Time now);
  void Leave(std::map<std::string, Held>::iterator it, SubsetReason reason);
  // Whether another one is being attached in its place.
  bool IsBeingReplaced(const std::string& address) const;
  // Steps of Advance.
  void LeaveUnknown();
  void LeaveReplaced();
  void ReplaceLost(Time now);
  void Fill(Time now);
  void VisitNext(Time now);
  // nullptr: none may be visited now.
  const std::string* NextToVisit(Time now);
  void SetNext(Time now);
  // The move to a visited verifier that helps most; probability 0: none helps.
  Move BestMove(const std::string& to, const DrafterDemand& demand) const;
  // In [0, 1).
  double Draw();
  // A random pause from half of `mean` to one and a half of it, so that drafters that have seen the
  // same do not return at once.
  Duration Jittered(Duration mean);

  const SubsetOptions options_;
  const uint64_t name_hash_;
  uint64_t draws_ = 0;
  Addresses addresses_;
  std::vector<uint32_t> by_rank_;  // indexes of addresses_, best first
  size_t visit_at_ = 0;            // in by_rank_: the next to visit
  bool visit_lost_ = true;         // the next visit is to a lost one, if there is one
  std::map<std::string, Held> held_;
  std::set<std::string> leaving_;
  std::string visiting_;  // "": none
  std::map<std::string, Memory> memory_;
  std::vector<SubsetChange> changes_;
  Time tick_;  // the next visit
  Time next_;
};

}  // namespace outrider
