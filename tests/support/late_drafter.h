// A drafter whose messages are well-formed but whose drafts are late, in one of two ways.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "tests/support/raw_drafter.h"

namespace outrider::testing {

enum class Lateness {
  kUnfinished,  // sends the first part of each draft and never the rest
  kDawdling,    // sends each draft complete, as shortly before its deadline as it can estimate
};

// Attached for its whole lifetime, or until the verifier ends the stream. All its tokens are the
// same, so hardly any is accepted.
class LateDrafter {
 public:
  LateDrafter(const std::string& address, const TokenizerFingerprint& tokenizer,
              const std::string& name, Lateness lateness);
  ~LateDrafter();

  int plans() const { return plans_; }

 private:
  void Answer(const Asked& asked);
  void SendDelayed();

  const Lateness lateness_;
  std::atomic<int> plans_{0};
  Mutex mu_;
  std::condition_variable changed_;
  bool stop_ OUTRIDER_GUARDED_BY(mu_) = false;
  // With kDawdling, how long a draft takes: increases while drafts are in time.
  Duration delay_ OUTRIDER_GUARDED_BY(mu_) = std::chrono::milliseconds(2);
  struct Waiting {
    Time due;
    Asked asked;
  };
  std::map<uint64_t, Waiting> waiting_ OUTRIDER_GUARDED_BY(mu_);  // by session
  RawDrafter stream_;
  std::thread reader_;
  std::thread sender_;
};

}  // namespace outrider::testing
