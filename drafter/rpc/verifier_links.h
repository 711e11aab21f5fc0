// The links to all verifiers that the drafter was told of, kept as names and files change: a new
// address is dialled, one that is gone finishes its sessions and is let go, and one that comes back
// meanwhile is kept. A lookup that fails changes nothing.
//
// Names are looked up again every `refresh`, and every second while a verifier behind one is not
// attached; files are looked at every second and read when they have changed. A lookup may hang for
// as long as the system lets it, and nothing can end it: each has a thread that nobody waits for.
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

// Told from the links' and from gRPC's threads; must not wait.
class LinksObserver : public LinkObserver {
 public:
  // So many verifiers are to be served now.
  virtual void OnVerifiers(int count) = 0;
  virtual void OnLookupFailed(const std::string& target, const Status& why) = 0;
};

struct VerifierLinksOptions {
  std::vector<VerifierTarget> targets;
  VerifierLinkOptions link;  // but address and authority
  Duration refresh = std::chrono::seconds(10);
  // The longest time between two looks while a verifier is not attached, and at a file.
  Duration hasty_refresh = std::chrono::seconds(1);
  Lookup lookup = SystemLookup;
  // Whether an address that a file names may be dialled.
  std::function<Status(const std::string& address)> admit = [](const std::string&) {
    return Status();
  };
};

class VerifierLinks {
 public:
  // Starts to look up and to dial. `events` and `observer` must outlive the links.
  VerifierLinks(const VerifierLinksOptions& options, LinkEvents* events, LinksObserver* observer);
  ~VerifierLinks();

  // Closes our half of every stream, gives the verifiers a second to end them, and dials no more.
  void Stop();

 private:
  // What a lookup's thread leaves, whoever is still there to see it.
  struct Answer {
    Mutex mu;
    std::optional<Result<std::vector<std::string>>> result OUTRIDER_GUARDED_BY(mu);
  };
  struct Target {
    VerifierTarget what;
    std::vector<std::string> addresses;  // by the last look that succeeded
    Time due = {};
    FileStamp stamp;                // kFile: what was read
    std::shared_ptr<Answer> asked;  // kDns: under way
    std::string last_words;         // the same failure is told once
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
  // Knows which links are attached, and passes on what it is told.
  class Tracker;

  void Run();
  // Begins what is due and takes what has come.
  void Look(Target& target, Time now);
  void Settle(Target& target, Result<std::vector<std::string>> result);
  // Dials what is new, lets go of what is gone.
  void Update();
  Duration Period(const Target& target);

  const VerifierLinksOptions options_;
  LinkEvents* const events_;
  LinksObserver* const observer_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  const std::unique_ptr<Tracker> tracker_;

  // Of the thread, and of the owner behind it.
  std::vector<Target> targets_;
  std::map<std::string, std::unique_ptr<GrpcVerifierLink>> links_;
  std::map<std::string, std::unique_ptr<GrpcVerifierLink>> leaving_;
  int told_ = -1;

  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace outrider
