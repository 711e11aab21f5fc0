// The flags of outrider-verifier.
#pragma once

#include <optional>

#include "common/service/service_options.h"
#include "common/spec/draft_law.h"
#include "verifier/engine/engine.h"

namespace outrider {

struct VerifierOptions {
  ServiceOptions service{.listen = "127.0.0.1:7300", .metrics = "127.0.0.1:7301"};
  EngineOptions engine;
  DraftLawLimits law_limits;
  double drain_timeout_seconds = 30;
};

// As ParseCommandLine of service_options.h.
std::optional<int> ParseVerifierOptions(int argc, char** argv, VerifierOptions* options);

}  // namespace outrider
