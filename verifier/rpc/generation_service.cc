#include "verifier/rpc/generation_service.h"

#include <functional>
#include <memory>
#include <utility>

#include "common/rpc/incoming.h"
#include "common/rpc/status_map.h"
#include "common/rpc/stream_sink.h"
#include "verifier/engine/request_trace.h"
#include "verifier/rpc/call_trace.h"
#include "verifier/rpc/padding.h"
#include "verifier/rpc/wire.h"

namespace outrider {
namespace {

using GenerateStream = grpc::ServerWriteReactor<v1::GenerateResponse>;
using GenerateSink = StreamSink<GenerateStream, v1::GenerateResponse>;

// Chunks that may wait for a slow client: one a token of the longest context planned for.
constexpr size_t kMaxQueuedChunks = 131072;

// The trailing metadata by which gRPC clients know when to try again.
constexpr char kPushbackKey[] = "grpc-retry-pushback-ms";

void AddPushback(grpc::CallbackServerContext* context, Duration after) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(after).count();
  context->AddTrailingMetadata(kPushbackKey, std::to_string(ms));
}

void SendPadded(GenerateSink& stream, int pad, v1::GenerateResponse response) {
  Pad(pad, &response);
  stream.Send(std::move(response));
}

// The engine's sink over one stream.
class StreamedGeneration final : public GenerationSink {
 public:
  StreamedGeneration(std::shared_ptr<GenerateSink> stream, std::shared_ptr<WriteThread> writes,
                     int pad)
      : stream_(std::move(stream)), writes_(std::move(writes)), pad_(pad) {}

  void Send(Chunk chunk) override {
    writes_->Post([stream = stream_, pad = pad_, chunk = std::move(chunk)] {
      SendPadded(*stream, pad, ToWire(chunk));
    });
  }
  void Finish(const Summary& summary) override {
    writes_->Post([stream = stream_, pad = pad_, summary] {
      SendPadded(*stream, pad, ToWire(summary));
      stream->Close(grpc::Status::OK);
    });
  }
  void Fail(const Status& status) override {
    writes_->Post([stream = stream_, status] { stream->Close(ToGrpc(status)); });
  }

 private:
  std::shared_ptr<GenerateSink> stream_;
  std::shared_ptr<WriteThread> writes_;
  const int pad_;
};

class GenerateReactor final : public GenerateStream {
 public:
  GenerateReactor(grpc::CallbackServerContext* context, Intake* intake)
      : id_(intake->NewId()),
        context_(context),
        intake_(intake),
        sink_(std::make_shared<GenerateSink>(this, kMaxQueuedChunks)) {}

  void Reject(const Status& status) { sink_->Close(ToGrpc(status)); }

  // `trace`: the request's span; may be null.
  void Submit(GenerationRequest request, std::shared_ptr<RequestTrace> trace,
              std::shared_ptr<WriteThread> writes, int pad) {
    intake_->Submit(
        id_, std::move(request),
        Traced(std::make_shared<StreamedGeneration>(sink_, std::move(writes), pad), trace),
        [sink = sink_, context = context_, trace](const Status& status,
                                                  std::optional<Duration> after) {
          EndSpan(trace, status);
          sink->Close(ToGrpc(status), [&] {
            if (after.has_value()) AddPushback(context, *after);
          });
        });
  }

  void OnWriteDone(bool ok) override { sink_->WriteDone(ok); }

  // The client hung up, or its deadline passed.
  void OnCancel() override {
    // The end of a request that the engine never got.
    intake_->Cancel(id_, [sink = sink_] { sink->Close(grpc::Status::CANCELLED); });
  }

  void OnDone() override {
    sink_->Detach();
    delete this;
  }

 private:
  const uint64_t id_;
  grpc::CallbackServerContext* context_;  // until OnDone
  Intake* intake_;
  std::shared_ptr<GenerateSink> sink_;
};

// gRPC's deadline on our clock; none when the client set none.
std::optional<Time> DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto wall = context.deadline();
  if (wall == std::chrono::system_clock::time_point::max()) return std::nullopt;
  const auto left = wall - std::chrono::system_clock::now();
  // gRPC states "no deadline" as one years ahead, too.
  if (left > std::chrono::hours(24 * 365)) return std::nullopt;
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<Duration>(left);
}

}  // namespace

GenerationService::GenerationService(Served served, Engine* engine, DrafterPool* pool,
                                     EngineThread* thread, Intake* intake)
    : served_(std::move(served)),
      engine_(engine),
      pool_(pool),
      thread_(thread),
      intake_(intake),
      writes_(std::make_shared<WriteThread>()),
      started_(std::chrono::steady_clock::now()) {
  const auto admit = [this](const grpc::CallbackServerContext& context) {
    return served_.authorization->Admit(context).status();
  };
  const auto index = [](const char* method) {
    return MethodIndex<v1::GenerateRequest>("Generation", method);
  };
  // In place of the handlers that the base has set.
  MarkMethodCallback(index("Generate"),
                     ServerStreamHandler<v1::GenerateRequest, v1::GenerateResponse>(
                         admit, std::bind_front(&GenerationService::Generate, this)));
  MarkMethodCallback(index("GetModel"),
                     UnaryHandler<v1::GetModelRequest, v1::GetModelResponse>(
                         admit, std::bind_front(&GenerationService::GetModel, this)));
  MarkMethodCallback(index("GetStatus"),
                     UnaryHandler<v1::GetStatusRequest, v1::GetStatusResponse>(
                         admit, std::bind_front(&GenerationService::GetStatus, this)));
  MarkMethodCallback(index("Tokenize"),
                     UnaryHandler<v1::TokenizeRequest, v1::TokenizeResponse>(
                         admit, std::bind_front(&GenerationService::Tokenize, this)));
  MarkMethodCallback(index("Detokenize"),
                     UnaryHandler<v1::DetokenizeRequest, v1::DetokenizeResponse>(
                         admit, std::bind_front(&GenerationService::Detokenize, this)));
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  auto* reactor = new GenerateReactor(context, intake_);
  Result<std::string> client = served_.authorization->Admit(*context);
  if (!client.ok()) {
    reactor->Reject(client.status());
    return reactor;
  }
  // From here on: who may not call leaves no spans either.
  auto [span, link] = RequestTrace::Start(served_.tracer, TraceOf(*context));
  if (span != nullptr) {
    span->Name("outrider.v1.Generation/Generate", {{"rpc.system", "grpc"},
                                                   {"rpc.service", "outrider.v1.Generation"},
                                                   {"rpc.method", "Generate"},
                                                   {"gen_ai.operation.name", "text_completion"},
                                                   {"gen_ai.provider.name", "outrider"},
                                                   {"gen_ai.request.model", served_.config.name}});
  }
  Result<GenerationRequest> parsed = FromWire(*request, *served_.tokenizer, served_.limits);
  const Status status = parsed.ok() ? Validate(parsed.value(), served_.limits) : parsed.status();
  if (!status.ok()) {
    EndSpan(span, status);
    reactor->Reject(status);
    return reactor;
  }
  if (span != nullptr) span->Describe(*parsed);
  parsed->deadline = DeadlineOf(*context);
  parsed->client = std::move(client).value();
  parsed->trace = std::move(link);
  reactor->Submit(std::move(parsed).value(), std::move(span), writes_, served_.pad_responses);
  return reactor;
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const v1::GetModelRequest* /*request*/,
                                                      v1::GetModelResponse* response) {
  const ModelConfig& config = served_.config;
  response->set_name(config.name);
  response->set_architecture(config.architecture);
  response->set_vocab_size(static_cast<uint32_t>(served_.limits.vocab_size));
  response->set_max_context(static_cast<uint32_t>(served_.limits.max_context));
  response->mutable_eos_token_ids()->Assign(config.eos_token_ids.begin(),
                                            config.eos_token_ids.end());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* GenerationService::GetStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetStatusRequest* /*request*/,
                                                       v1::GetStatusResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool posted = thread_->TryPost([this, reactor, response] {
    *response = ToWire(engine_->Snapshot(), pool_->Snapshot());
    response->set_model(served_.config.name);
    response->set_version(served_.version);
    response->set_uptime_seconds(Seconds(std::chrono::steady_clock::now() - started_));
    reactor->Finish(grpc::Status::OK);
  });
  if (!posted) reactor->Finish(ToGrpc(ResourceExhausted("the verifier is overloaded")));
  return reactor;
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Result<std::vector<TokenId>> ids =
      served_.tokenizer->Encode(request->text(), request->parse_special());
  if (!ids.ok()) {
    reactor->Finish(ToGrpc(ids.status().Annotate("text")));
    return reactor;
  }
  if (request->add_prefix()) {
    const std::vector<TokenId>& prefix = served_.tokenizer->prompt_prefix();
    ids->insert(ids->begin(), prefix.begin(), prefix.end());
  }
  response->mutable_token_ids()->Assign(ids->begin(), ids->end());
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Result<std::string> text =
      outrider::Detokenize(*request, *served_.tokenizer, served_.limits.vocab_size);
  if (!text.ok()) {
    reactor->Finish(ToGrpc(text.status()));
    return reactor;
  }
  response->set_text(std::move(text).value());
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace outrider
