// The flags of outrider-verifier.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/log.h"

namespace outrider {

struct VerifierOptions {
  std::string model;
  std::string listen = "127.0.0.1:7300";
  std::string metrics = "127.0.0.1:7301";
  int threads = 1;
  std::vector<int> cores;
  WeightType weights = WeightType::kBf16;
  bool bf16_activations = false;
  int kv_tokens = 0;  // 0: 64 sequences of the longest context, 262,144 tokens at most
  int max_sessions = 256;
  int max_waiting = 1024;
  int max_batch_tokens = 512;
  int prefill_chunk = 256;
  int draft_length = 4;
  int max_draft_length = 16;
  float law_mass = 0.9995f;
  int law_entries = 64;
  double drain_timeout_seconds = 30;
  LogLevel log_level = LogLevel::kInfo;
  bool log_json = false;
};

// Parses the command line and the flag file that it names. An int: the program's exit code (--help
// and
// --version: 0, bad flags: 2, with the words already printed).
std::optional<int> ParseVerifierOptions(int argc, char** argv, VerifierOptions* options);

}  // namespace outrider
