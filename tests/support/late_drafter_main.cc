// Attaches a late drafter to a verifier of models/default until it receives a signal, to measure
// its cost (docs/testing.md):
//   late_drafter HOST:PORT unfinished|dawdling
#include <csignal>
#include <cstdio>
#include <string>

#include "tests/support/late_drafter.h"
#include "tests/support/services.h"

int main(int argc, char** argv) {
  using namespace outrider;
  const std::string way = argc == 3 ? argv[2] : "";
  if (way != "unfinished" && way != "dawdling") {
    std::fprintf(stderr, "usage: late_drafter HOST:PORT unfinished|dawdling\n");
    return 2;
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto tokenizer = Tokenizer::Load(testing::SourcePath("models/default/target"));
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "late_drafter: %s\n", tokenizer.status().ToString().c_str());
    return 1;
  }
  testing::LateDrafter drafter(
      argv[1], (*tokenizer)->fingerprint(), "late",
      way == "unfinished" ? testing::Lateness::kUnfinished : testing::Lateness::kDawdling);
  int signal = 0;
  sigwait(&signals, &signal);
  std::printf("late_drafter: %d plans\n", drafter.plans());
  return 0;
}
