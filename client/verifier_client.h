// A client of a verifier's Generation service, with blocking calls.
//
// Thread: any; calls run concurrently.
// Errors carry the service's code, and the address if nobody answers there.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "client/options.h"
#include "common/base/status.h"
#include "outrider/v1/generation.pb.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace outrider {

// The request that `options` describe, still without a prompt.
v1::GenerateRequest MakeRequest(const RequestOptions& options);

class VerifierClient {
 public:
  // Reads certificates and the token, and fails if one of them is invalid. The first call connects.
  static Result<VerifierClient> Create(const ConnectionOptions& options);

  // Blocks until the text has ended, and passes every chunk to `on_chunk` as it arrives.
  // timeout_seconds 0: none. An error after the first token says how many had arrived. `stop`
  // cancels the call. `traceparent`: of the trace that the request belongs to; "": none.
  Result<v1::Finished> Generate(const v1::GenerateRequest& request, double timeout_seconds,
                                const std::function<void(const v1::TokenChunk&)>& on_chunk,
                                const std::stop_token& stop = {},
                                const std::string& traceparent = "") const;
  // `stop` cancels the call.
  Result<v1::GetStatusResponse> GetStatus(const std::stop_token& stop = {}) const;
  Result<std::string> Detokenize(std::span<const uint32_t> token_ids) const;

 private:
  VerifierClient(std::string address, std::string token, std::shared_ptr<grpc::Channel> channel);

  // The call's context, with its token and deadline. timeout_seconds 0: none.
  std::unique_ptr<grpc::ClientContext> MakeContext(double timeout_seconds) const;
  Status Explain(const Status& status) const;

  std::string address_;
  std::string token_;  // "": none
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace outrider
