// A verifier's Generation service with scripted answers, on a free loopback port.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/server.h"
#include "outrider/v1/generation.grpc.pb.h"

namespace outrider {

using GenerateWriter = grpc::ServerWriter<v1::GenerateResponse>;
// What one Generate call does. Called on the service's threads, side by side.
using GenerateScript = std::function<grpc::Status(const v1::GenerateRequest&, GenerateWriter*)>;

inline v1::GenerateResponse Chunk(const std::string& text, const std::vector<uint32_t>& ids,
                                  uint32_t accepted = 0, uint32_t drafted = 0) {
  v1::GenerateResponse response;
  v1::TokenChunk* chunk = response.mutable_chunk();
  chunk->set_text(text);
  chunk->mutable_token_ids()->Assign(ids.begin(), ids.end());
  chunk->set_accepted(accepted);
  chunk->set_drafted(drafted);
  return response;
}

inline v1::GenerateResponse Finished(uint32_t prompt_tokens, uint32_t completion_tokens) {
  v1::GenerateResponse response;
  v1::Finished* finished = response.mutable_finished();
  finished->set_reason(v1::Finished::REASON_LENGTH);
  finished->set_prompt_tokens(prompt_tokens);
  finished->set_completion_tokens(completion_tokens);
  return response;
}

class FakeGeneration final : public v1::Generation::Service {
 public:
  explicit FakeGeneration(GenerateScript script) : script_(std::move(script)) {
    auto server = RpcServer::Start({.listen = "127.0.0.1:0"}, {this});
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    if (server.ok()) server_ = std::move(server).value();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(server_->port()); }

  // The requests so far, in the order of their arrival.
  std::vector<v1::GenerateRequest> requests() {
    MutexLock lock(mu_);
    return requests_;
  }

  // What GetStatus answers. Set before the call.
  v1::GetStatusResponse status;

  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest* request,
                        GenerateWriter* writer) override {
    {
      MutexLock lock(mu_);
      requests_.push_back(*request);
    }
    return script_(*request, writer);
  }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    *response = status;
    return grpc::Status::OK;
  }

  // Token n reads "<n>".
  grpc::Status Detokenize(grpc::ServerContext*, const v1::DetokenizeRequest* request,
                          v1::DetokenizeResponse* response) override {
    for (const uint32_t id : request->token_ids()) {
      *response->mutable_text() += "<" + std::to_string(id) + ">";
    }
    return grpc::Status::OK;
  }

 private:
  const GenerateScript script_;
  Mutex mu_;
  std::vector<v1::GenerateRequest> requests_ OUTRIDER_GUARDED_BY(mu_);
  std::unique_ptr<RpcServer> server_;  // last: its calls end before the rest dies
};

}  // namespace outrider
