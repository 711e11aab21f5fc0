#include "tests/chaos/fleet.h"

#include <gtest/gtest.h>

#include <csignal>
#include <utility>

#include "tests/support/services.h"

namespace outrider::testing {

const char* Name(Fault fault) {
  switch (fault) {
    case Fault::kKilled: return "killed";
    case Fault::kStopped: return "stopped";
    case Fault::kDelayed: return "delayed";
    case Fault::kLossy: return "lossy";
    case Fault::kPartitioned: return "partitioned";
    case Fault::kCut: return "cut";
    case Fault::kUnfinished: return "unfinished";
    case Fault::kDawdling: return "dawdling";
  }
  return "";
}

Fleet::Fleet(std::string verifier, std::string directory, int drafters)
    : directory_(std::move(directory)), members_(static_cast<size_t>(drafters)) {
  const auto tokenizer = Tokenizer::Load(SmallPair("target"));
  if (tokenizer.ok()) {
    tokenizer_ = (*tokenizer)->fingerprint();
  } else {
    ADD_FAILURE() << tokenizer.status().ToString();
  }
  for (int i = 0; i < drafters; ++i) {
    auto proxy = DelayProxy::Start({.to = verifier, .seed = static_cast<uint64_t>(i) + 1});
    if (!proxy.ok()) ADD_FAILURE() << proxy.status().ToString();
    members_[static_cast<size_t>(i)].proxy = std::move(proxy).value();
    Start(i);
  }
}

void Fleet::Start(int i) {
  Member& m = members_[static_cast<size_t>(i)];
  const std::string name = "drafter-" + std::to_string(i);
  m.process = StartDrafter(SmallPair("drafter"), m.proxy->address(),
                           directory_ + "/" + name + "." + std::to_string(++m.starts) + ".log",
                           {"--name", name});
}

void Fleet::Replace(int i, Lateness lateness) {
  Member& m = members_[static_cast<size_t>(i)];
  m.process->Signal(SIGKILL);
  m.process->Wait();
  m.late = std::make_unique<LateDrafter>(m.proxy->address(), tokenizer_,
                                         "late-drafter-" + std::to_string(i), lateness);
}

void Fleet::Begin(Fault fault, int i, std::mt19937_64& random) {
  const Member& m = members_[static_cast<size_t>(i)];
  const auto uniform = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  switch (fault) {
    case Fault::kKilled: m.process->Signal(SIGKILL); break;
    case Fault::kStopped: m.process->Signal(SIGSTOP); break;
    case Fault::kDelayed: m.proxy->SetRtt(std::chrono::milliseconds(uniform(20, 300))); break;
    case Fault::kLossy: m.proxy->SetLoss(0.01 * uniform(1, 20)); break;
    case Fault::kPartitioned: m.proxy->Partition(); break;
    case Fault::kCut: m.proxy->Cut(); break;
    case Fault::kUnfinished: Replace(i, Lateness::kUnfinished); break;
    case Fault::kDawdling: Replace(i, Lateness::kDawdling); break;
  }
}

void Fleet::End(Fault fault, int i) {
  Member& m = members_[static_cast<size_t>(i)];
  switch (fault) {
    case Fault::kKilled:
      m.process->Wait();
      Start(i);
      break;
    case Fault::kStopped: m.process->Signal(SIGCONT); break;
    case Fault::kDelayed: m.proxy->SetRtt({}); break;
    case Fault::kLossy: m.proxy->SetLoss(0); break;
    case Fault::kPartitioned: m.proxy->Heal(); break;
    case Fault::kCut: break;  // it reconnects
    case Fault::kUnfinished:
    case Fault::kDawdling:
      m.late.reset();
      Start(i);
      break;
  }
}

}  // namespace outrider::testing
