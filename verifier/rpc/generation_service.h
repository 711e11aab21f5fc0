// outrider.v1.Generation over an engine: translates, posts to the engine thread, streams back.
// Callers are admitted before their request is parsed; texts go by way of the workers that
// tokenize.
//
// Thread: gRPC's callback threads; nothing here waits.
#pragma once

#include <memory>
#include <string>

#include "outrider/v1/generation.grpc.pb.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/engine/intake.h"
#include "verifier/engine/text_workers.h"
#include "verifier/pool/drafter_pool.h"
#include "verifier/rpc/authorization.h"
#include "verifier/rpc/write_thread.h"

namespace outrider {

class GenerationService final : public v1::Generation::CallbackService {
 public:
  // What the service reads on any thread; fixed for its life.
  struct Served {
    const Tokenizer* tokenizer = nullptr;
    ModelConfig config;
    RequestLimits limits;
    std::string version;
    const ClientAuthorization* authorization = nullptr;
    int pad_responses = 0;                // as in Pad of padding.h
    Tracer* tracer = nullptr;             // of requests, where they are recorded
    TextWorkers* text_workers = nullptr;  // outlives the service; stopped before its server is
    grammar::GrammarCache* grammars = nullptr;  // of structured output; outlives the service
  };

  // All must outlive the service. `engine` and `pool` are touched on the engine thread only.
  GenerationService(Served served, Engine* engine, DrafterPool* pool, EngineThread* thread,
                    Intake* intake);

 private:
  // The methods as the handlers of incoming.h call them, which own requests: gRPC would keep them
  // for the life of the call.
  grpc::ServerWriteReactor<v1::GenerateResponse>* ServeGenerate(
      grpc::CallbackServerContext* context, CallerKeys caller, v1::GenerateRequest request);
  grpc::ServerUnaryReactor* ServeGetModel(grpc::CallbackServerContext* context,
                                          const CallerKeys& caller,
                                          const v1::GetModelRequest& request,
                                          v1::GetModelResponse* response);
  grpc::ServerUnaryReactor* ServeGetStatus(grpc::CallbackServerContext* context,
                                           const CallerKeys& caller,
                                           const v1::GetStatusRequest& request,
                                           v1::GetStatusResponse* response);
  grpc::ServerUnaryReactor* ServeTokenize(grpc::CallbackServerContext* context,
                                          const CallerKeys& caller, v1::TokenizeRequest request,
                                          v1::TokenizeResponse* response);
  grpc::ServerUnaryReactor* ServeDetokenize(grpc::CallbackServerContext* context,
                                            const CallerKeys& caller, v1::DetokenizeRequest request,
                                            v1::DetokenizeResponse* response);

  const Served served_;
  Engine* engine_;
  DrafterPool* pool_;
  EngineThread* thread_;
  Intake* intake_;
  std::shared_ptr<WriteThread> writes_;  // shared with what it writes for
  Time started_;
};

}  // namespace outrider
