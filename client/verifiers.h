// The verifiers of a benchmark, one of which answers each request.
//
// Thread: any; calls block and run concurrently.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "client/bench_stats.h"
#include "client/options.h"
#include "client/verifier_choice.h"
#include "client/verifier_client.h"
#include "common/base/clock.h"

namespace outrider {

class Verifiers {
 public:
  // Errors: VerifierClient::Create's.
  static Result<std::unique_ptr<Verifiers>> Create(const BenchOptions& options);

  // VerifierClient::Generate at the verifier that the policy chooses. If that one is unavailable
  // before its first chunk, another one is asked, each at most once and all within the timeout.
  Result<v1::Finished> Generate(const v1::GenerateRequest& request, double timeout_seconds,
                                const std::function<void(const v1::TokenChunk&)>& on_chunk,
                                const std::stop_token& stop);

  // What each verifier got so far.
  void Describe(BenchReport* report) const;

 private:
  Verifiers(const BenchOptions& options, std::vector<VerifierClient> clients);

  const std::vector<std::string> addresses_;
  const std::vector<VerifierClient> clients_;
  const SteadyClock clock_;
  VerifierChoice choice_;
};

}  // namespace outrider
