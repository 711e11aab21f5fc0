// A verifier's Generation service, one blocking call at a time and thread.
//
// Thread: any; calls run side by side.
// Errors carry the service's code, and the address when nobody answers there.
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

// The request that `options` describe; its prompt is still to be set.
v1::GenerateRequest MakeRequest(const RequestOptions& options);

class VerifierClient {
 public:
  // Reads certificates and token; an error when one of them is not right. Connects with the first
  // call.
  static Result<VerifierClient> Create(const ConnectionOptions& options);

  // Blocks until the text has ended; `on_chunk` sees every chunk as it comes. timeout_seconds 0:
  // none. An error after the first token says how many had come. `stop`: cancels the call.
  Result<v1::Finished> Generate(const v1::GenerateRequest& request, double timeout_seconds,
                                const std::function<void(const v1::TokenChunk&)>& on_chunk,
                                const std::stop_token& stop = {}) const;
  Result<v1::GetStatusResponse> GetStatus() const;
  Result<std::string> Detokenize(std::span<const uint32_t> token_ids) const;

 private:
  VerifierClient(std::string address, std::string token, std::shared_ptr<grpc::Channel> channel);

  // The call's context: its token and its deadline. timeout_seconds 0: none.
  std::unique_ptr<grpc::ClientContext> MakeContext(double timeout_seconds) const;
  Status Explain(const Status& status) const;

  std::string address_;
  std::string token_;  // "": none
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace outrider
