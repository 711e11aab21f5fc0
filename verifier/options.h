// The flags of outrider-verifier.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/service/service_options.h"
#include "common/spec/draft_distribution.h"
#include "verifier/chat/answer_reader.h"
#include "verifier/embedded/embedded_drafter.h"
#include "verifier/engine/engine.h"

namespace outrider {

struct VerifierOptions {
  ServiceOptions service{.listen = "127.0.0.1:7300", .metrics = "127.0.0.1:7301"};
  EngineOptions engine;
  // What EngineOptions::planner is made from, unless `policy` is "fixed".
  std::string policy = "adaptive";
  PlannerOptions planner;
  DraftDistributionLimits distribution_limits;
  double min_draft_wait_seconds = 0;  // above 0 for tests and measurements
  int max_drafters = 64;
  std::string zone;  // "": unknown
  double drain_timeout_seconds = 30;
  std::string client_tokens;   // file; "": every client may call
  std::string drafter_tokens;  // file; without it and drafter_names, any drafter may attach
  std::vector<std::string> drafter_names;
  EmbeddedDrafterOptions embedded;   // without a model, no drafter runs in this process
  int pad_responses = 0;             // bytes; 0: none
  std::string http;                  // host:port of the OpenAI-compatible front; empty: none
  std::string http_model;            // the model's name there; empty: the checkpoint's
  bool http_ignore_unknown = false;  // ignore unknown fields
  bool http_metrics = true;          // also serve GET /metrics there
  std::string http_cors;             // origin whose pages may call it; empty: none
  std::string chat_template;         // file or "chatml"; empty: the checkpoint's own
  // How answers are parsed; unset: detected from the chat template.
  std::optional<ToolFormat> tool_parser;
  std::optional<ReasoningFormat> reasoning_parser;
  bool generation_config = true;  // take requests' defaults from generation_config.json
  bool vllm_metrics = false;
  bool prefix_digest = false;  // serve GET /prefix_cache on the metrics port
  double trace_sample_ratio = 1;
};

// See ParseCommandLine in command_line.h.
std::optional<int> ParseVerifierOptions(int argc, char** argv, VerifierOptions* options);

}  // namespace outrider
