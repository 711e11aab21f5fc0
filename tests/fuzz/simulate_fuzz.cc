// For any pair (the input after some bytes of options): Simulate rejects it, or its answer is JSON
// whose distributions are valid.

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "simulate/simulate.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using outrider::fuzz::Require;

bool IsDistribution(const nlohmann::json& distribution) {
  double sum = 0;
  for (const auto& entry : distribution) {
    const double p = entry.get<double>();
    if (!(p >= 0)) return false;
    sum += p;
  }
  return std::fabs(sum - 1) < 1e-4;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Input in(data, size);
  outrider::SimulateOptions options;
  constexpr const char* kAlgorithms[] = {"token",      "block",           "greedy-block", "spectr",
                                         "multiround", "multipath-block", "gumbel",       ""};
  options.algorithm = kAlgorithms[in.Below(8)];
  // The number of cells grows with vocab ^ length: slow inputs find no more than fast ones.
  const int length = in.Below(size > 600 ? 3 : 4) - (in.Below(32) == 31 ? 3 : 0);
  options.drafts = in.Below(4);
  options.rounds = in.Below(16);
  const int flags = in.Byte();
  options.exact = flags % 2 == 1;
  options.integer_distributions = (flags & 2) != 0;
  options.chain = (flags >> 2) % 4;
  if ((flags & 16) != 0) {
    for (int i = in.Below(4); i > 0; --i) options.tree.push_back(in.Below(4));
  } else {
    options.draft_length = length;
  }

  const auto report = outrider::Simulate(in.Rest(), options);
  if (!report.ok()) {
    Require(report.status().code() == outrider::Code::kInvalidArgument);
    return 0;
  }
  const nlohmann::json json = nlohmann::json::parse(*report);
  Require(IsDistribution(json.at("first_token_law")) && IsDistribution(json.at("sequence_law")));
  const double accepted = json.at("mean_accepted").get<double>();
  Require(accepted >= 0 && accepted <= json.at("draft_length").get<double>() + 1e-9);
  return 0;
}
