// Any scenario is rejected, or simulated with every policy and consistent figures.

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "simulate/control.h"
#include "simulate/scenario.h"
#include "tests/fuzz/fuzz_input.h"
#include "verifier/control/controller.h"

using outrider::fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Input in(data, size);
  const std::vector<std::string>& names = outrider::PolicyNames();
  const std::string policy = names[static_cast<size_t>(in.Below(static_cast<int>(names.size())))];
  const std::string text(in.Rest());
  const auto scenario = outrider::ParseControlScenario(text);
  if (!scenario.ok()) {
    Require(scenario.status().code() == outrider::Code::kInvalidArgument);
    return 0;
  }
  // Slow scenarios find no more than fast ones.
  if (static_cast<double>(scenario->tokens) * scenario->requests *
          static_cast<double>(scenario->arms.size() + 1) >
      2000) {
    return 0;
  }
  const auto report = outrider::SimulateControl(text, {.policy = policy, .seeds = 1});
  Require(report.ok());
  const nlohmann::json json = nlohmann::json::parse(*report);
  const double mean = json.at("mean_ms").get<double>();
  const double best = json.at("best_fixed_ms").get<double>();
  Require(mean > 0 && best > 0 && std::isfinite(mean));
  int64_t pulls = 0;
  for (const auto& [arm, count] : json.at("pulls").items()) pulls += count.get<int64_t>();
  Require(pulls >= scenario->requests &&
          pulls <= static_cast<int64_t>(scenario->requests) * scenario->tokens);
  return 0;
}
