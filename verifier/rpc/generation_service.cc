#include "verifier/rpc/generation_service.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/incoming.h"
#include "common/rpc/service_names.h"
#include "common/rpc/status_map.h"
#include "common/rpc/stream_sink.h"
#include "verifier/rpc/call_record.h"
#include "verifier/rpc/generation_wire.h"
#include "verifier/rpc/padding.h"

namespace outrider {
namespace {

using GenerateStream = grpc::ServerWriteReactor<v1::GenerateResponse>;
using GenerateSink = StreamSink<GenerateStream, v1::GenerateResponse>;

// Chunks that may wait for a slow client: one per token of the longest context planned for.
constexpr size_t kMaxQueuedChunks = 131072;

// The trailing metadata that tell gRPC clients when to try again, if that may help.
constexpr char kPushbackKey[] = "grpc-retry-pushback-ms";

void AddPushback(grpc::CallbackServerContext* context, std::optional<Duration> after) {
  if (!after.has_value()) return;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(*after).count();
  context->AddTrailingMetadata(kPushbackKey, std::to_string(ms));
}

void SendPadded(GenerateSink& stream, int pad, v1::GenerateResponse response) {
  Pad(pad, &response);
  stream.Send(std::move(response));
}

// The engine's sink for one stream.
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

// gRPC's deadline on our clock; nullopt if the client set none.
std::optional<Time> DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto wall = context.deadline();
  if (wall == std::chrono::system_clock::time_point::max()) return std::nullopt;
  const auto left = wall - std::chrono::system_clock::now();
  // gRPC reports "no deadline" as one that is years ahead.
  if (left > std::chrono::hours(24 * 365)) return std::nullopt;
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<Duration>(left);
}

// A Generate call, from its message until the engine has it. Outlives its reactor, because when the
// client has gone a worker may still tokenize, and the engine may still send.
//
// Thread: any.
class GenerateCall final : public std::enable_shared_from_this<GenerateCall> {
 public:
  // What is known of a call apart from its message.
  struct About {
    CallerKeys caller;
    std::optional<Time> deadline;
    std::shared_ptr<RequestRecord> record;
  };

  GenerateCall(GenerateStream* reactor, grpc::CallbackServerContext* context, Intake* intake)
      : id_(intake->NewId()),
        context_(context),
        intake_(intake),
        stream_(std::make_shared<GenerateSink>(reactor, context, kMaxQueuedChunks)) {}

  uint64_t id() const { return id_; }
  GenerateSink& stream() { return *stream_; }

  // Call before Queue or Prepare.
  void Begin(About about, std::shared_ptr<WriteThread> writes, int pad) {
    about_ = std::move(about);
    writes_ = std::move(writes);
    pad_ = pad;
  }

  void Reject(const Status& status, std::optional<Duration> after = std::nullopt) {
    EndRecord(*about_.record, status);
    stream_->Close(ToGrpc(status), [&] { AddPushback(context_, after); });
  }

  // Runs Prepare on one of the workers, in turn, and then frees the message.
  void Queue(v1::GenerateRequest wire, const GenerationService::Served& served) {
    const auto self = shared_from_this();
    const size_t bytes = wire.SpaceUsedLong();
    const Result<uint64_t> ticket = served.text_workers->Submit(
        {.client = about_.caller.turn,
         .bytes = bytes,
         .deadline = about_.deadline,
         .run = [self, wire = std::move(wire), &served] { self->Prepare(wire, served); },
         .refuse = [self](const Status& status) { self->Reject(status); }});
    if (!ticket.ok()) return Reject(ticket.status(), TextWorkers::RetryAfter(ticket.status()));
    ticket_ = *ticket;
  }

  // Builds the request, in time proportional to its prompt and grammar, and passes it to the engine
  // unless the client has gone.
  void Prepare(const v1::GenerateRequest& wire, const GenerationService::Served& served)
      OUTRIDER_EXCLUDES(mu_) {
    Result<GenerationRequest> request = FromWire(wire, *served.tokenizer, served.limits);
    Status status = request.ok() ? Validate(*request, served.limits) : request.status();
    if (status.ok()) {
      status = CompileGrammar(served.grammars, &*request).Annotate("sampling.structured_output");
    }
    if (!status.ok()) return Reject(status, TextWorkers::RetryAfter(status));
    about_.record->Describe(*request, request->prompt.size());
    request->deadline = about_.deadline;
    request->client = about_.caller.client;
    request->trace = about_.record->link();
    MutexLock lock(mu_);
    if (gone_) return Reject(ClientGone());
    submitted_ = true;
    Submit(std::move(request).value());
  }

  // The client has hung up, or its deadline has passed.
  void Cancel(TextWorkers& workers) OUTRIDER_EXCLUDES(mu_) {
    if (ticket_ != 0 && workers.Cancel(ticket_)) return Reject(ClientGone());
    MutexLock lock(mu_);
    gone_ = true;
    if (!submitted_) return;  // rejected, or a worker has it and closes the stream
    // Closes the stream of a request that never reached the engine.
    intake_->Cancel(id_, [record = about_.record, stream = stream_] {
      EndRecord(*record, ClientGone());
      stream->Close(grpc::Status::CANCELLED);
    });
  }

 private:
  void Submit(GenerationRequest request) {
    intake_->Submit(
        id_, std::move(request),
        Recorded(std::make_shared<StreamedGeneration>(stream_, writes_, pad_), about_.record),
        [self = shared_from_this()](const Status& status, std::optional<Duration> after) {
          self->Reject(status, after);
        });
  }

  const uint64_t id_;
  grpc::CallbackServerContext* const context_;  // while the stream is open
  Intake* const intake_;
  const std::shared_ptr<GenerateSink> stream_;
  About about_;
  std::shared_ptr<WriteThread> writes_;
  int pad_ = 0;
  uint64_t ticket_ = 0;  // 0: not queued. Set before the reactor can be cancelled.
  Mutex mu_;
  bool gone_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool submitted_ OUTRIDER_GUARDED_BY(mu_) = false;
};

class GenerateReactor final : public GenerateStream {
 public:
  // Counts among `open` until it is done.
  GenerateReactor(grpc::CallbackServerContext* context, Intake* intake, TextWorkers* workers,
                  std::atomic<int>* open)
      : workers_(workers),
        open_(open),
        call_(std::make_shared<GenerateCall>(this, context, intake)) {
    ++*open_;
  }

  GenerateCall& call() { return *call_; }

  void OnWriteDone(bool ok) override { call_->stream().WriteDone(ok); }
  void OnCancel() override { call_->Cancel(*workers_); }
  void OnDone() override {
    call_->stream().Detach();
    --*open_;
    delete this;
  }

 private:
  TextWorkers* const workers_;
  std::atomic<int>* const open_;
  const std::shared_ptr<GenerateCall> call_;
};

// A unary call answered by one of the workers.
class TextCall final : public grpc::ServerUnaryReactor {
 public:
  explicit TextCall(TextWorkers* workers) : workers_(workers) {}

  // `answer(request)` fills in the response, or returns an error.
  template <class Request, class Answer>
  void Queue(grpc::CallbackServerContext* context, const CallerKeys& caller, Request request,
             Answer answer) {
    const size_t bytes = request.SpaceUsedLong();
    const Result<uint64_t> ticket = workers_->Submit(
        {.client = caller.turn,
         .bytes = bytes,
         .deadline = DeadlineOf(*context),
         .run = [this, request = std::move(request), answer] { Finish(ToGrpc(answer(request))); },
         .refuse = [this](const Status& status) { Finish(ToGrpc(status)); }});
    if (ticket.ok()) {
      ticket_ = *ticket;
      return;
    }
    AddPushback(context, TextWorkers::RetryAfter(ticket.status()));
    Finish(ToGrpc(ticket.status()));
  }

  void OnCancel() override {
    if (ticket_ != 0 && workers_->Cancel(ticket_)) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  TextWorkers* const workers_;
  uint64_t ticket_ = 0;  // 0: not queued. Set before the call can be cancelled.
};

}  // namespace

GenerationService::GenerationService(Served served, const Engine* engine,
                                     const DrafterRoster* roster, EngineThread* thread,
                                     Intake* intake)
    : served_(std::move(served)),
      engine_(engine),
      roster_(roster),
      intake_(intake),
      writes_(std::make_shared<WriteThread>()),
      status_calls_(thread, writes_, std::bind_front(&GenerationService::StatusNow, this)),
      started_(std::chrono::steady_clock::now()) {
  const auto admit = [this](const grpc::CallbackServerContext& context) {
    return served_.authorization->Admit(context);
  };
  const auto index = [](const char* method) {
    return MethodIndex<v1::GenerateRequest>("Generation", method);
  };
  // Replaces the handlers that the base class has set.
  MarkMethodCallback(
      index("Generate"),
      ServerStreamHandler<v1::GenerateRequest, v1::GenerateResponse>(
          admit, kClientMessage, std::bind_front(&GenerationService::ServeGenerate, this)));
  MarkMethodCallback(
      index("GetModel"),
      UnaryHandler<v1::GetModelRequest, v1::GetModelResponse>(
          admit, kClientMessage, std::bind_front(&GenerationService::ServeGetModel, this)));
  MarkMethodCallback(
      index("GetStatus"),
      UnaryHandler<v1::GetStatusRequest, v1::GetStatusResponse>(
          admit, kClientMessage, std::bind_front(&GenerationService::ServeGetStatus, this)));
  MarkMethodCallback(
      index("Tokenize"),
      UnaryHandler<v1::TokenizeRequest, v1::TokenizeResponse>(
          admit, kClientMessage, std::bind_front(&GenerationService::ServeTokenize, this)));
  MarkMethodCallback(
      index("Detokenize"),
      UnaryHandler<v1::DetokenizeRequest, v1::DetokenizeResponse>(
          admit, kClientMessage, std::bind_front(&GenerationService::ServeDetokenize, this)));
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::ServeGenerate(
    grpc::CallbackServerContext* context, CallerKeys caller, v1::GenerateRequest request) {
  auto* reactor = new GenerateReactor(context, intake_, served_.text_workers, &open_calls_);
  GenerateCall& call = reactor->call();
  std::string id = RequestIdOf(*context);
  if (id.empty()) id = std::to_string(call.id());
  auto record =
      RequestRecord::Start(served_.tracer, TraceOf(*context),
                           {.id = std::move(id), .route = "Generate", .client = caller.client});
  if (record->is_traced()) {
    record->Name(std::string(kGenerationService) + "/Generate",
                 {{"rpc.system", "grpc"},
                  {"rpc.service", kGenerationService},
                  {"rpc.method", "Generate"},
                  {"gen_ai.operation.name", "text_completion"},
                  {"gen_ai.provider.name", "outrider"},
                  {"gen_ai.request.model", served_.config.name}});
  }
  call.Begin(
      {.caller = std::move(caller), .deadline = DeadlineOf(*context), .record = std::move(record)},
      writes_, served_.pad_responses);
  // What follows takes time proportional to the message, so its sizes are checked first.
  if (const Status fits = CheckSizes(request, served_.limits); !fits.ok()) {
    call.Reject(fits);
  } else if (request.has_text() || request.stop().stop_strings_size() > 0 ||
             request.sampling().has_structured_output()) {
    call.Queue(std::move(request), served_);
  } else {
    call.Prepare(request, served_);
  }
  return reactor;
}

grpc::ServerUnaryReactor* GenerationService::ServeGetModel(grpc::CallbackServerContext* context,
                                                           const CallerKeys& /*caller*/,
                                                           const v1::GetModelRequest& /*request*/,
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

grpc::ServerUnaryReactor* GenerationService::ServeGetStatus(grpc::CallbackServerContext* context,
                                                            const CallerKeys& /*caller*/,
                                                            const v1::GetStatusRequest& /*request*/,
                                                            v1::GetStatusResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  status_calls_.Answer(reactor, response);
  return reactor;
}

v1::GetStatusResponse GenerationService::StatusNow() const {
  v1::GetStatusResponse status = ToWire(engine_->Snapshot(), roster_->Snapshot());
  status.set_model(served_.config.name);
  status.set_version(served_.version);
  status.set_uptime_seconds(Seconds(std::chrono::steady_clock::now() - started_));
  return status;
}

grpc::ServerUnaryReactor* GenerationService::ServeTokenize(grpc::CallbackServerContext* context,
                                                           const CallerKeys& caller,
                                                           v1::TokenizeRequest request,
                                                           v1::TokenizeResponse* response) {
  const auto answer = [this, response](const v1::TokenizeRequest& asked) {
    const Result<std::vector<TokenId>> ids = EncodeText(
        *served_.tokenizer, asked.text(),
        {.add_special_tokens = asked.add_prefix(), .parse_special = asked.parse_special()});
    if (!ids.ok()) return ids.status().Annotate("text");
    response->mutable_token_ids()->Assign(ids->begin(), ids->end());
    return Status();
  };
  auto* call = new TextCall(served_.text_workers);
  call->Queue(context, caller, std::move(request), answer);
  return call;
}

grpc::ServerUnaryReactor* GenerationService::ServeDetokenize(grpc::CallbackServerContext* context,
                                                             const CallerKeys& caller,
                                                             v1::DetokenizeRequest request,
                                                             v1::DetokenizeResponse* response) {
  const auto answer = [this, response](const v1::DetokenizeRequest& asked) {
    OUTRIDER_ASSIGN(std::string text,
                    outrider::Detokenize(asked, *served_.tokenizer, served_.limits.vocab_size));
    response->set_text(std::move(text));
    return Status();
  };
  auto* call = new TextCall(served_.text_workers);
  const Status fits = CheckAtMost("token_ids", request.token_ids_size(), kMaxDetokenizeIds);
  if (fits.ok()) {
    call->Queue(context, caller, std::move(request), answer);
  } else {
    call->Finish(ToGrpc(fits));
  }
  return call;
}

}  // namespace outrider
