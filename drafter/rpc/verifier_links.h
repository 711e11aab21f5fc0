// The links to the verifiers that the drafter serves: a subset (drafter/subset) of those that its
// targets name, updated as names, files and the verifiers change. One that is left finishes its
// sessions, for ten minutes at most, and is dropped, or is kept if it returns meanwhile. A failed
// lookup changes nothing.
//
// Names are resolved again every `refresh`, and every second while none of their verifiers is known
// or a verifier of the subset is not attached; files are checked every second and read when they
// have changed. A lookup may hang for as long as the system lets it, and cannot be interrupted, so
// each has a thread that nobody waits for.
//
// Thread: one owner; has a thread of its own.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/file_stamp.h"
#include "common/base/mutex.h"
#include "drafter/rpc/grpc_verifier_link.h"
#include "drafter/rpc/verifier_target.h"
#include "drafter/rpc/verifier_visit.h"
#include "drafter/subset/verifier_subset.h"

namespace outrider {

// Called from the links' and from gRPC's threads; must not block.
class LinksObserver : public LinkObserver {
 public:
  // The number of verifiers that the targets name has changed.
  virtual void OnVerifiers(int count) = 0;
  // The subset has changed. `held`: its streams, attached or dialled; `leaving`: streams beside it
  // that are left and drain; `other_zone`: attached ones of it to verifiers in another zone.
  virtual void OnSubset(int held, int leaving, int other_zone) = 0;
  // A stream was left.
  virtual void OnStreamLeft(SubsetReason why) = 0;
  virtual void OnLookupFailed(const std::string& target, const Status& why) = 0;
};

struct VerifierLinksOptions {
  std::vector<VerifierTarget> targets;
  VerifierLinkOptions link;  // without dial.address and dial.authority
  SubsetOptions subset;
  Duration refresh = std::chrono::seconds(10);
  // The longest time between two lookups while a verifier of the subset is not attached, and
  // between two checks of a file.
  Duration hasty_refresh = std::chrono::seconds(1);
  Lookup lookup = SystemLookup;
  // How long a verifier that was left may finish its sessions. Then its stream is closed, and the
  // sessions that are left go on with other drafters. Without a bound, a stream whose sessions
  // never end would keep its place at both ends, and no move begins while a quarter of the subset
  // drains.
  Duration longest_drain = std::chrono::minutes(10);
  // Whether an address from a file may be dialled.
  std::function<Status(const std::string& address)> admit = [](const std::string&) {
    return Status();
  };
};

class VerifierLinks {
 public:
  // Starts lookups and dialling. `events` and `observer` must outlive the links.
  VerifierLinks(const VerifierLinksOptions& options, LinkEvents* events, LinksObserver* observer);
  ~VerifierLinks();

  // Closes our half of every stream, gives the verifiers a second to end them, and stops dialling.
  void Stop();

 private:
  // A lookup's result. Its thread may outlive the links.
  struct Answer {
    Mutex mu;
    std::optional<Result<std::vector<std::string>>> result OUTRIDER_GUARDED_BY(mu);
  };
  struct Target {
    VerifierTarget what;
    std::vector<std::string> addresses;  // by the last successful lookup
    Time due = {};
    FileStamp stamp;                // kFile: of the version that was read
    std::shared_ptr<Answer> asked;  // kDns: the lookup under way
    std::string last_words;         // repeated failures are logged once
  };
  // Shared with lookups' threads, which may outlive the links.
  struct Bell {
    Mutex mu;
    std::condition_variable rung;
    bool ringing OUTRIDER_GUARDED_BY(mu) = false;
    void Ring() {
      MutexLock lock(mu);
      ringing = true;
      rung.notify_all();
    }
  };
  // A link that is left.
  struct Leaving {
    std::unique_ptr<GrpcVerifierLink> link;
    Time until;  // when it is closed
  };
  // Collects what happens to the links for the thread, and passes it on to the observer.
  class Tracker;

  void Run();
  // Begins lookups that are due and takes results.
  void UpdateLookup(Target& target, Time now);
  void ApplyLookup(Target& target, Result<std::vector<std::string>> result);
  // Tells the subset which verifiers there are.
  void UpdateAddresses();
  // Does what the subset decides.
  void FollowSubset(Time now);
  void Attach(const std::string& address);
  void Visit(const std::string& address);
  VerifierLinkOptions OptionsFor(const std::string& address) const;
  void Leave(const std::string& address, SubsetReason why, Time now);
  // Closes links that have drained for too long, and forgets those that are over.
  void DropLeft(Time now);
  void ReportSubset();
  Duration Period(const Target& target);

  const VerifierLinksOptions options_;
  LinkEvents* const events_;
  LinksObserver* const observer_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  const std::unique_ptr<Tracker> tracker_;

  // Used by the thread, and by the owner after it has ended.
  std::vector<Target> targets_;
  std::map<std::string, std::string> authorities_;  // by address; "": as ChannelOptions has it
  VerifierSubset subset_;
  std::map<std::string, std::unique_ptr<GrpcVerifierLink>> links_;
  std::map<std::string, Leaving> leaving_;
  std::unique_ptr<VerifierVisit> visit_;  // the last one; the subset makes one at a time
  int told_verifiers_ = -1;
  std::array<int, 3> told_subset_{};  // the arguments of OnSubset

  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace outrider
