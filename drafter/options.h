// The flags of outrider-drafter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/log.h"

namespace outrider {

struct DrafterOptions {
  std::string model;
  std::vector<std::string> verifiers;
  std::string name;  // "": host:pid
  std::string listen;
  std::string metrics = "127.0.0.1:7302";
  bool exit_on_refusal = false;
  int threads = 1;
  std::vector<int> cores;
  WeightType weights = WeightType::kBf16;
  bool bf16_activations = false;
  int kv_tokens = 0;  // 0: 64 sequences of the longest context, 262,144 at most
  int max_sessions = 256;
  int max_draft_length = 16;
  LogLevel log_level = LogLevel::kInfo;
  bool log_json = false;
};

// Parses the command line and the flag file that it names. An int: the program's exit code (--help
// and --version: 0, bad flags: 2, with the words already printed).
std::optional<int> ParseDrafterOptions(int argc, char** argv, DrafterOptions* options);

}  // namespace outrider
