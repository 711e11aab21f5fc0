// Drafter processes, each with its own proxy, and the faults that can be injected.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/delay_proxy.h"
#include "tests/support/late_drafter.h"
#include "tests/support/process.h"

namespace outrider::testing {

enum class Fault {
  kKilled,
  kStopped,
  kDelayed,
  kLossy,
  kPartitioned,
  kCut,
  kUnfinished,  // replaced by a drafter that sends parts of drafts and never their ends
  kDawdling,    // replaced by one that sends each draft just before its deadline
};
inline constexpr Fault kFaults[] = {Fault::kKilled,     Fault::kStopped,     Fault::kDelayed,
                                    Fault::kLossy,      Fault::kPartitioned, Fault::kCut,
                                    Fault::kUnfinished, Fault::kDawdling};
const char* Name(Fault fault);

class Fleet {
 public:
  // Logs go to files in `directory`.
  Fleet(std::string verifier, std::string directory, int drafters);

  int size() const { return static_cast<int>(members_.size()); }
  Process& drafter(int i) { return *members_[static_cast<size_t>(i)].process; }

  // Begins and ends a fault of a healthy drafter: afterwards it is healthy again, or will recover.
  void Begin(Fault fault, int i, std::mt19937_64& random);
  void End(Fault fault, int i);

 private:
  struct Member {
    std::unique_ptr<DelayProxy> proxy;
    std::unique_ptr<Process> process;
    std::unique_ptr<LateDrafter> late;  // replaces `process`
    int starts = 0;
  };
  void Start(int i);
  void Replace(int i, Lateness lateness);

  const std::string directory_;
  TokenizerFingerprint tokenizer_;
  std::vector<Member> members_;
};

}  // namespace outrider::testing
