#include "verifier/engine/metrics.h"

#include <algorithm>

namespace outrider {
namespace {

// The longest draft that the protocol plans for; more positions would only add series.
constexpr int kPositions = 16;

}  // namespace

VerifierMetrics::VerifierMetrics(MetricsRegistry& registry,
                                 const std::vector<std::string>& arm_names)
    : registry_(registry) {
  for (int position = 0; position < kPositions; ++position) {
    accepted_per_pos_.push_back(
        registry.MakeCounter("outrider_spec_decode_num_accepted_tokens_per_pos_total",
                             "Draft tokens accepted by position in the draft, from 0",
                             {{"position", std::to_string(position)}}));
  }
  for (const std::string& name : arm_names) {
    const MetricLabels labels = {{"arm", name}};
    arms.push_back(
        {.rounds = registry.MakeCounter("outrider_spec_decode_arm_rounds_total",
                                        "Rounds by chosen arm", labels),
         .tokens = registry.MakeCounter("outrider_spec_decode_arm_tokens_total",
                                        "Tokens of these rounds", labels),
         .seconds = registry.MakeCounter("outrider_spec_decode_arm_seconds_total",
                                         "Time of these rounds, from choice to verdict", labels),
         .expected_tokens_per_second = registry.MakeGauge(
             "outrider_spec_decode_arm_expected_tokens_per_second",
             "What the controller expected of the arm when it last chose it", labels)});
  }
}

Counter VerifierMetrics::Finished(const char* reason) {
  return registry_.MakeCounter("outrider_request_success_total", "Finished requests",
                               {{"finished_reason", reason}});
}

Counter VerifierMetrics::Refused(const char* reason) {
  return registry_.MakeCounter("outrider_requests_refused_total",
                               "Requests refused before they waited", {{"reason", reason}});
}

Counter VerifierMetrics::DraftersLeft(const char* reason) {
  return registry_.MakeCounter("outrider_drafters_left_total", "Drafters whose stream ended",
                               {{"reason", reason}});
}

void VerifierMetrics::CountAcceptedPositions(int accepted) {
  for (int position = 0; position < std::min(accepted, kPositions); ++position) {
    accepted_per_pos_[static_cast<size_t>(position)].Increment();
  }
}

void ExportConfig(MetricsRegistry& registry, const ServedModelConfig& config) {
  registry
      .MakeGauge("outrider_cache_config_info", "Size of the KV cache, in labels; always 1",
                 {{"block_size", std::to_string(config.page_tokens)},
                  {"num_gpu_blocks", std::to_string(config.pages)}})
      .Set(1);
  registry.MakeGauge("outrider_model_devices", "Devices among which the model is divided")
      .Set(config.devices);
}

}  // namespace outrider
