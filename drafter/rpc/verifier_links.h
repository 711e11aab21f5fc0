// The links to all verifiers that the drafter serves, updated as names and files change: a new
// address is dialled; one that disappears finishes its sessions and is dropped, or is kept if it
// returns meanwhile. A failed lookup changes nothing.
//
// Names are resolved again every `refresh`, and every second while one of their verifiers is not
// attached; files are checked every second and read when they have changed. A lookup may hang for
// as long as the system lets it, and cannot be interrupted, so each has a thread that nobody waits
// for.
//
// Thread: one owner; has a thread of its own.
#pragma once

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

namespace outrider {

// Called from the links' and from gRPC's threads; must not block.
class LinksObserver : public LinkObserver {
 public:
  // The number of verifiers to serve has changed.
  virtual void OnVerifiers(int count) = 0;
  virtual void OnLookupFailed(const std::string& target, const Status& why) = 0;
};

struct VerifierLinksOptions {
  std::vector<VerifierTarget> targets;
  VerifierLinkOptions link;  // without address and authority
  Duration refresh = std::chrono::seconds(10);
  // The longest time between two lookups while a verifier is not attached, and between two checks
  // of a file.
  Duration hasty_refresh = std::chrono::seconds(1);
  Lookup lookup = SystemLookup;
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
  // Tracks which links are attached, and passes events on.
  class Tracker;

  void Run();
  // Begins lookups that are due and takes results.
  void Look(Target& target, Time now);
  void Settle(Target& target, Result<std::vector<std::string>> result);
  // Dials new addresses and drops old ones.
  void Update();
  Duration Period(const Target& target);

  const VerifierLinksOptions options_;
  LinkEvents* const events_;
  LinksObserver* const observer_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  const std::unique_ptr<Tracker> tracker_;

  // Used by the thread, and by the owner after it has ended.
  std::vector<Target> targets_;
  std::map<std::string, std::unique_ptr<GrpcVerifierLink>> links_;
  std::map<std::string, std::unique_ptr<GrpcVerifierLink>> leaving_;
  int told_ = -1;

  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace outrider
