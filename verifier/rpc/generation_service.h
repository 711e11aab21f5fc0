// Serves outrider.v1.Generation over an engine: translates, posts to the engine thread, streams
// back. Callers are admitted before their request is parsed; texts are tokenized by the text
// workers.
//
// Thread: gRPC's callback threads; nothing here blocks.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "outrider/v1/generation.grpc.pb.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/engine/intake.h"
#include "verifier/engine/text_workers.h"
#include "verifier/pool/drafter_roster.h"
#include "verifier/rpc/authorization.h"
#include "verifier/rpc/status_calls.h"
#include "verifier/rpc/write_thread.h"

namespace outrider {

class GenerationService final : public v1::Generation::CallbackService {
 public:
  // What the service reads on any thread; constant for its lifetime.
  struct Served {
    const Tokenizer* tokenizer = nullptr;
    ModelConfig config;
    RequestLimits limits;
    std::string version;
    const ClientAuthorization* authorization = nullptr;
    int pad_responses = 0;                // see Pad in padding.h
    Tracer* tracer = nullptr;             // records the spans of requests, if set
    TextWorkers* text_workers = nullptr;  // outlives the service; stopped before its server is
    grammar::GrammarCache* grammars = nullptr;  // for structured output; outlives the service
  };

  // All must outlive the service. `engine` and `roster` are only used on the engine thread.
  GenerationService(Served served, const Engine* engine, const DrafterRoster* roster,
                    EngineThread* thread, Intake* intake);

  // Generate calls under way, until the last byte of their answer is on its way.
  int open_calls() const { return open_calls_; }

 private:
  // The methods, as called by the handlers of incoming.h. These own the requests, which gRPC would
  // keep for the lifetime of the call.
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

  // Thread: the engine thread's.
  v1::GetStatusResponse StatusNow() const;

  const Served served_;
  const Engine* engine_;
  const DrafterRoster* roster_;
  Intake* intake_;
  std::shared_ptr<WriteThread> writes_;  // shared with the streams it writes for
  StatusCalls status_calls_;
  Time started_;
  std::atomic<int> open_calls_ = 0;
};

}  // namespace outrider
