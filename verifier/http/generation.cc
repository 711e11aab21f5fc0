#include "verifier/http/generation.h"

#include <cmath>
#include <utility>

#include "verifier/http/api_error.h"

namespace outrider {
namespace {

constexpr int kOk = 200;

// An event of a stream, padded by a comment before it, which clients skip.
std::string ServerSentEvent(const std::string& data, int pad) {
  std::string event = "data: " + data + "\n\n";
  if (pad > 0) {
    constexpr size_t kEmptyComment = 2;  // ":\n"
    const auto multiple = static_cast<size_t>(pad);
    const size_t least = event.size() + kEmptyComment;
    const size_t size = (least + multiple - 1) / multiple * multiple;
    event.insert(0, ":" + std::string(size - least, ' ') + "\n");
  }
  return event;
}

}  // namespace

// The engine's sink for one choice.
class HttpGeneration::Sink final : public GenerationSink {
 public:
  Sink(std::shared_ptr<HttpGeneration> generation, int index)
      : generation_(std::move(generation)), index_(index) {}

  void Send(Chunk chunk) override {
    generation_->exchange_->Post(
        [g = generation_, index = index_, chunk = std::move(chunk)]() mutable {
          g->OnChunk(index, std::move(chunk));
        });
  }
  void Finish(const Summary& summary) override {
    generation_->exchange_->Post(
        [g = generation_, index = index_, summary] { g->OnFinish(index, summary); });
  }
  void Fail(const Status& status) override {
    generation_->exchange_->Post([g = generation_, status] { g->OnFail(status); });
  }

 private:
  const std::shared_ptr<HttpGeneration> generation_;
  const int index_;
};

HttpGeneration::HttpGeneration(Parts parts, ApiRequest request, ApiAnswer answer,
                               std::shared_ptr<HttpExchange> exchange)
    : parts_(std::move(parts)),
      request_(std::move(request)),
      answer_(std::move(answer)),
      exchange_(std::move(exchange)) {}

void HttpGeneration::Start() {
  exchange_->OnGone([self = shared_from_this()] { self->OnGone(); });
  Submit();
}

void HttpGeneration::Submit() {
  const auto self = shared_from_this();
  std::vector<RequestChoice> choices;
  for (const GenerationRequest& prompt : request_.prompts) {
    std::optional<uint64_t> first;
    for (int choice = 0; choice < request_.choices; ++choice) {
      const uint64_t id = parts_.intake->NewId();
      choices.push_back({.id = id,
                         .request = ChoiceOf(prompt, choice),
                         .sink = std::make_shared<Sink>(self, static_cast<int>(ids_.size())),
                         .after = first});
      ids_.push_back(id);
      if (choice == 0) first = id;
    }
  }
  parts_.intake->Submit(
      std::move(choices), [self](const Status& status, std::optional<Duration> after) {
        self->exchange_->Post([self, status, after] { self->OnRefused(status, after); });
      });
}

void HttpGeneration::OnRefused(const Status& status, std::optional<Duration> after) {
  ids_.clear();  // there is nothing to cancel
  OnFail(status, after);
}

void HttpGeneration::OnChunk(int index, Chunk chunk) {
  if (over_) return;
  parts_.record->Add(chunk);
  const std::vector<std::string> events = answer_.Add(index, std::move(chunk));
  SendFrom(answer_.TakeEcho(index));
  Send(events);
}

void HttpGeneration::OnFinish(int index, const Summary& summary) {
  if (over_) return;
  parts_.record->Add(summary, index % request_.choices == 0);
  Send(answer_.Finish(index, summary));
  if (over_ || !answer_.complete()) return;
  EndRecord(Status(), kOk);
  if (request_.stream) {
    if (request_.include_usage) Send({answer_.UsageEvent()});
    Send({"[DONE]"});
    if (over_) return;
    over_ = true;
    exchange_->EndStream();
    return;
  }
  Reply();
}

// An answer longer than a piece goes out in pieces, each made when the client has taken the one
// before, because this thread also serves other connections.
void HttpGeneration::Reply() {
  over_ = true;
  parts_.metrics->CountRequest(parts_.route, kOk);
  const auto body = std::make_shared<JsonPieces>(answer_.Body());
  std::string first = body->Next();
  if (body->done()) {
    exchange_->Reply({.headers = parts_.headers, .body = std::move(first)});
    return;
  }
  exchange_->BeginStream({.headers = parts_.headers});
  exchange_->WriteFrom([self = shared_from_this(), body, first = std::move(first)]() mutable {
    return first.empty() ? body->Next() : std::exchange(first, {});
  });
  exchange_->EndStream();
}

void HttpGeneration::BeginEvents() {
  if (std::exchange(streaming_, true)) return;
  parts_.metrics->CountRequest(parts_.route, kOk);
  HttpReply head{.content_type = "text/event-stream", .headers = parts_.headers};
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");
  exchange_->BeginStream(std::move(head));
}

void HttpGeneration::Send(const std::vector<std::string>& events) {
  if (!request_.stream || over_) return;
  BeginEvents();
  std::string bytes;
  for (const std::string& event : events) bytes += ServerSentEvent(event, parts_.pad_events);
  exchange_->Write(std::move(bytes));
}

void HttpGeneration::SendFrom(ApiAnswer::EventSource events) {
  if (events == nullptr) return;
  BeginEvents();
  exchange_->WriteFrom([self = shared_from_this(), events = std::move(events)] {
    const std::string event = events();
    return event.empty() ? event : ServerSentEvent(event, self->parts_.pad_events);
  });
}

Status HttpGeneration::InClientsWords(const Status& status) const {
  constexpr std::string_view kOurs = "structured_output: ";
  if (request_.grammar_field.empty() || !status.message().starts_with(kOurs)) return status;
  return Status(status.code(), status.message().substr(kOurs.size()))
      .Annotate(request_.grammar_field);
}

void HttpGeneration::OnFail(const Status& failure, std::optional<Duration> after) {
  if (over_) return;
  const Status status = InClientsWords(failure);
  EndRecord(status, streaming_ ? kOk : HttpCodeOf(status));
  CancelRest();
  if (streaming_) {
    Send({ErrorJson(status)});
    if (over_) return;
    over_ = true;
    exchange_->EndStream();
    return;
  }
  over_ = true;
  parts_.metrics->CountRequest(parts_.route, HttpCodeOf(status));
  exchange_->Reply(ErrorReply(status, after, parts_.headers));
}

void HttpGeneration::OnGone() {
  if (over_) return;
  EndRecord(ClientGone(), streaming_ ? kOk : kClientGone);
  CancelRest();
  over_ = true;
  if (!streaming_) parts_.metrics->CountRequest(parts_.route, kClientGone);
}

void HttpGeneration::EndRecord(const Status& status, int http_code) {
  parts_.record->End(status, {{"http.response.status_code", int64_t{http_code}}});
}

void HttpGeneration::CancelRest() {
  for (const uint64_t id : ids_) parts_.intake->Cancel(id);
}

}  // namespace outrider
