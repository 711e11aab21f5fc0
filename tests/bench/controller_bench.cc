// The controller's part of a step: microseconds for Choose and Observe of one session and round,
// with 32 sessions in turn, in requests of 512 tokens.
//   four, unrelated_32   that many arms, including plain decoding, each with its own proposer
//   lengths_33           four drafters at eight lengths, and plain decoding
//   served               the arms of a verifier (ServedArms), all allowed, one drafter
// Accepted lengths of each arm have a geometric distribution with its own acceptance rate.
// Run on one core: taskset -c 0 controller_bench
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "verifier/control/controller.h"
#include "verifier/engine/planner.h"

namespace outrider {
namespace {

constexpr int kSessions = 32;
constexpr int kTokens = 512;
constexpr int kCoins = 1 << 12;

Arm Chain(int drafter, int length) {
  const std::string name = std::to_string(drafter);
  return {.name = name + "x" + std::to_string(length),
          .proposer = {.kind = Proposer::Kind::kModel, .name = name},
          .shape = Sequences(1, length)};
}

std::vector<Arm> Chains(int drafters, int lengths) {
  std::vector<Arm> arms = {{.name = "plain"}};
  for (int drafter = 0; drafter < drafters; ++drafter) {
    // One length: 4.
    for (int length = 1; length <= lengths; ++length) {
      arms.push_back(Chain(drafter, lengths == 1 ? 4 : length));
    }
  }
  return arms;
}

void BM_Round(benchmark::State& state, const std::vector<Arm>& arms) {
  const std::unique_ptr<Controller> controller = Controller::Create({}, arms).value();
  const ArmSet& set = controller->arms();
  std::vector<StreamEstimate> streams(static_cast<size_t>(set.proposers()),
                                      {.round_trip = 0.002, .draft_depth = 0.002});
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  // [arms][kCoins] accepted depths.
  std::vector<std::vector<int>> depths_accepted(static_cast<size_t>(set.size()));
  for (int arm = 0; arm < set.size(); ++arm) {
    const double chance = 0.3 + 0.05 * (set.facts(arm).family * 7 % 12);
    for (int i = 0; i < kCoins; ++i) {
      int depths = 0;
      while (depths < set.facts(arm).length && uniform(rng) < chance) ++depths;
      depths_accepted[static_cast<size_t>(arm)].push_back(depths);
    }
  }
  struct Turn {
    std::unique_ptr<ControlSession> session;
    int remaining = 0;
  };
  std::vector<Turn> turns(kSessions);
  for (const int rows : {1, 64}) controller->costs().ObserveStep(rows, 0, 0.020 + 0.0005 * rows);
  uint64_t round = 0;
  for (auto _ : state) {
    Turn& turn = turns[round % kSessions];
    if (turn.remaining <= 0) turn = {.session = controller->Open("", ""), .remaining = kTokens};
    if (round % kSessions == 0) controller->costs().ObserveStep(3 * kSessions, 0, 0.068);
    const Choice choice =
        turn.session->Choose({.step_sessions = 4, .remaining = turn.remaining, .streams = streams});
    const int accepted = depths_accepted[static_cast<size_t>(choice.arm)][round % kCoins];
    turn.session->Observe(
        {.accepted = accepted, .emitted = accepted + 1, .seconds = choice.seconds});
    turn.remaining -= accepted + 1;
    ++round;
  }
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  using outrider::BM_Round;
  using outrider::Chains;
  const auto add = [](const char* name, std::vector<outrider::Arm> arms) {
    benchmark::RegisterBenchmark(name, BM_Round, std::move(arms))->Unit(benchmark::kMicrosecond);
  };
  add("four", Chains(3, 1));
  add("unrelated_32", Chains(31, 1));
  add("lengths_33", Chains(4, 8));
  add("served", outrider::ServedArms({}));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
