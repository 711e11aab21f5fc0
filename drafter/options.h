// The flags of outrider-drafter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/service/service_options.h"
#include "drafter/rpc/verifier_target.h"

namespace outrider {

struct DrafterOptions {
  ServiceOptions service{.metrics = "127.0.0.1:7302"};
  std::vector<VerifierTarget> verifiers;
  double resolve_seconds = 10;
  std::string tls_server_name;  // "": the host of the verifier's address
  std::string token_file;       // "": none
  std::string name;             // "": host:pid
  bool exit_on_refusal = false;
  int subset = 8;  // verifiers to serve at once
  double rebalance_seconds = 30;
  std::string zone;  // "": none is preferred
  int max_sessions = 256;
  int max_draft_length = 16;
  int max_draft_tokens = 128;
  int chunk_depths = 4;
  bool prefix_cache = true;
  int ahead_tokens = 32;
  int max_ahead_rows = 4;
  std::string acceptance_head;    // file; "": beside the model, if it exists
  std::string collect_head_data;  // file; "": nothing is collected
  uint64_t collect_head_examples = 200000;
};

// Plaintext to another machine must be requested explicitly.
Status CheckVerifier(const DrafterOptions& options, const std::string& address);

// See ParseCommandLine in command_line.h.
std::optional<int> ParseDrafterOptions(int argc, char** argv, DrafterOptions* options);

}  // namespace outrider
