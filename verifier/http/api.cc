#include "verifier/http/api.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "common/base/printable.h"
#include "verifier/http/api_answer.h"
#include "verifier/http/api_error.h"
#include "verifier/http/generation.h"
#include "verifier/http/json_text.h"
#include "verifier/http/open_api.h"
#include "verifier/http/prefix_header.h"
#include "verifier/http/token_requests.h"

namespace outrider {
namespace {

constexpr std::string_view kModels = "/v1/models";
constexpr char kOther[] = "other";

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// "org%2Fname" as "org/name". Invalid escapes stay, and name no model.
std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    if (text[i] == '%' && text.size() - i > 2) {
      const char* const digits = text.data() + i + 1;
      if (std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
        out += static_cast<char>(byte);
        i += 2;
        continue;
      }
    }
    out += text[i];
  }
  return out;
}

// "application/json", with or without parameters. Other types are refused, because a web page may
// send them to any address, even the loopback, without a preflight.
bool IsJson(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  const std::string_view type = content_type.substr(0, content_type.find_first_of("; \t"));
  return std::equal(type.begin(), type.end(), kJson.begin(), kJson.end(),
                    [](unsigned char a, char b) { return std::tolower(a) == b; });
}

}  // namespace

// Thread: its exchange's.
struct HttpApi::Call {
  const Route* route = nullptr;
  uint64_t number = 0;
  int64_t created = 0;                    // Unix seconds
  HttpHeaders headers;                    // of every answer
  bool has_prefix = false;                // among these is x-outrider-prefix, the client's
  std::shared_ptr<RequestRecord> record;  // of a completion or chat; null before its admission
  std::string client;
  std::shared_ptr<HttpExchange> exchange;
  // The client has gone, or was answered, before the engine got the request. What it does later
  // does not concern this call.
  bool over = false;
};

HttpApi::HttpApi(Served served, Intake* intake, TextWorkers* workers, HttpMetrics* metrics)
    : served_(std::move(served)),
      intake_(intake),
      workers_(workers),
      metrics_(metrics),
      started_(UnixSeconds()),
      open_api_(OpenApi(ShownRoutes(), served_.version, served_.model.name)) {}

const Route* HttpApi::ServedRoute(std::string_view path) const {
  const Route* route = RouteOf(path);
  const bool hidden =
      route != nullptr && route->kind == RouteKind::kMetrics && served_.metrics == nullptr;
  return hidden ? nullptr : route;
}

std::vector<Route> HttpApi::ShownRoutes() const {
  std::vector<Route> shown;
  for (const Route& route : Routes()) {
    if (ServedRoute(route.path) != nullptr) shown.push_back(route);
  }
  return shown;
}

HttpReply HttpApi::NothingAt(const std::string& path) const {
  std::string served;
  for (const Route& route : ShownRoutes()) {
    served += (served.empty() ? "" : ", ") + std::string(route.method) + " " + route.path;
  }
  return {.code = 404,
          .body = ErrorJson(404, "there is no endpoint " + Printable(path, kMaxShownText) +
                                     "; this server has " + served)};
}

std::optional<HttpReply> HttpApi::Admit(const HttpRequest& head) {
  const Route* route = ServedRoute(head.path);
  const auto refuse = [&](HttpReply reply) {
    metrics_->CountRequest(route == nullptr ? kOther : route->name, reply.code);
    return reply;
  };
  if (route == nullptr) return refuse(NothingAt(head.path));
  const bool is_get = std::string_view(route->method) == "GET";
  if (head.method == "OPTIONS" && !served_.cors_origin.empty()) {
    return refuse(Preflight(*route));
  }
  if (head.method != route->method && !(is_get && head.method == "HEAD")) {
    return refuse({.code = 405,
                   .headers = {{"Allow", route->method}},
                   .body = ErrorJson(405, std::string("this path takes ") + route->method)});
  }
  if (draining_ && !route->while_draining) {
    return refuse(ErrorReply(Unavailable("the verifier is draining and takes no new requests")));
  }
  if (!route->needs_token) return std::nullopt;
  const Result<CallerKeys> caller =
      served_.tokens->Admit(head.authorization, head.client, head.peer);
  if (!caller.ok()) return refuse(ErrorReply(caller.status()));
  if (!is_get && !IsJson(head.content_type)) {
    return refuse(
        {.code = 415, .body = ErrorJson(415, "the body must be Content-Type: application/json")});
  }
  if (!is_get && !head.content_encoding.empty()) {
    return refuse({.code = 415,
                   .headers = {{"Accept-Encoding", "identity"}},
                   .body = ErrorJson(415, "Content-Encoding: " + Printable(head.content_encoding) +
                                              " is not served; send the body without it")});
  }
  return std::nullopt;
}

// A browser asks before it sends a cross-origin request; the server adds the origin. "*" covers all
// headers but Authorization: clients send some of their own (OpenAI's: x-stainless-os).
HttpReply HttpApi::Preflight(const Route& route) {
  return {.headers = {{"Access-Control-Allow-Methods", route.method},
                      {"Access-Control-Allow-Headers", "authorization, *"},
                      {"Access-Control-Max-Age", "600"}}};
}

HttpReply HttpApi::Malformed(int code, const std::string& message) {
  metrics_->CountRequest(kOther, code);
  return {.code = code, .body = ErrorJson(code, message)};
}

void HttpApi::Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  const Route& route = *ServedRoute(request.path);  // Admit checked that it exists
  switch (route.kind) {
    case RouteKind::kCompletions:
    case RouteKind::kChat:
    case RouteKind::kTokenize:
    case RouteKind::kDetokenize: return Work(route, std::move(request), std::move(exchange));
    default: break;
  }
  HttpReply reply = PageOf(route, request.path);
  metrics_->CountRequest(route.name, reply.code);
  exchange->Reply(std::move(reply));
}

HttpReply HttpApi::PageOf(const Route& route, const std::string& path) const {
  switch (route.kind) {
    case RouteKind::kModels:
    case RouteKind::kModel: return Models(path);
    case RouteKind::kMetrics: return served_.metrics();
    case RouteKind::kServerVersion: return {.body = Dump({{"version", served_.version}})};
    case RouteKind::kOpenApi: return {.body = open_api_};
    default: return {.body = R"({"status":"ready"})"};
  }
}

HttpReply HttpApi::Models(const std::string& path) const {
  Json model = {{"id", served_.model.name},
                {"object", "model"},
                {"created", started_},
                {"owned_by", "outrider"},
                {"max_model_len", served_.model.limits.max_context}};
  if (path == kModels) {
    return {.body = Dump({{"object", "list"}, {"data", Json::array({std::move(model)})}})};
  }
  const std::string name = PercentDecoded(std::string_view(path).substr(kModels.size() + 1));
  if (name == served_.model.name) return {.body = Dump(model)};
  return ErrorReply(NotFound("model: \"" + Printable(name) + "\" is not served here"));
}

void HttpApi::Work(const Route& route, HttpRequest request,
                   std::shared_ptr<HttpExchange> exchange) {
  const auto call = std::make_shared<Call>();
  call->route = &route;
  call->number = ++requests_;
  call->created = UnixSeconds();
  call->exchange = std::move(exchange);
  if (!request.prefix.empty()) call->headers.emplace_back(kPrefixHeader, request.prefix);
  call->has_prefix = !request.prefix.empty();
  Result<CallerKeys> caller =
      served_.tokens->Admit(request.authorization, request.client, request.peer);
  if (!caller.ok()) return Refuse(*call, caller.status());
  // Records begin here, so that unauthorized calls leave none.
  if (route.kind == RouteKind::kCompletions || route.kind == RouteKind::kChat) {
    Record(*call, request, caller->client);
  }
  call->client = std::move(caller->client);
  Queue(call, caller->turn, std::move(request.body));
}

void HttpApi::Record(Call& call, const HttpRequest& request, const std::string& client) const {
  call.record =
      RequestRecord::Start(served_.tracer, request.trace,
                           {.id = request.request_id, .route = call.route->name, .client = client});
  if (!call.record->is_traced()) return;
  const bool chat = call.route->kind == RouteKind::kChat;
  call.record->Name(request.method + " " + request.path,
                    {{"http.request.method", request.method},
                     {"http.route", request.path},
                     {"url.path", request.path},
                     {"gen_ai.operation.name", chat ? "chat" : "text_completion"},
                     {"gen_ai.provider.name", "outrider"},
                     {"gen_ai.request.model", served_.model.name},
                     {"outrider.request_id", request.request_id}});
}

void HttpApi::Queue(const std::shared_ptr<Call>& call, const std::string& turn, std::string body) {
  const size_t bytes = body.size();
  const Result<uint64_t> ticket =
      workers_->Submit({.client = turn,
                        .bytes = bytes,
                        .run = [this, call, body = std::move(body)] { Read(call, body); },
                        .refuse =
                            [this, call](const Status& status) {
                              call->exchange->Post([this, call, status] { Answer(*call, status); });
                            }});
  if (!ticket.ok()) return Refuse(*call, ticket.status(), TextWorkers::RetryAfter(ticket.status()));
  call->exchange->OnGone([this, call, ticket = *ticket] {
    if (std::exchange(call->over, true)) return;
    workers_->Cancel(ticket);
    EndRecord(*call, ClientGone(), kClientGone);
    metrics_->CountRequest(call->route->name, kClientGone);
  });
}

void HttpApi::Read(const std::shared_ptr<Call>& call, const std::string& body) {
  const ApiModel& model = served_.model;
  const RouteKind kind = call->route->kind;
  if (kind == RouteKind::kTokenize || kind == RouteKind::kDetokenize) {
    Result<std::string> answer =
        kind == RouteKind::kTokenize ? Tokenize(body, model) : Detokenize(body, model);
    call->exchange->Post(
        [this, call, answer = std::move(answer)]() mutable { Answer(*call, std::move(answer)); });
    return;
  }
  auto parsed = kind == RouteKind::kChat ? ParseChat(body, model) : ParseCompletion(body, model);
  call->exchange->Post(
      [this, call, parsed = std::move(parsed)]() mutable { Begin(*call, std::move(parsed)); });
}

void HttpApi::Answer(Call& call, Result<std::string> body) {
  if (call.over) return;
  if (!body.ok()) return Refuse(call, body.status());
  call.over = true;
  metrics_->CountRequest(call.route->name, 200);
  call.exchange->Reply({.headers = call.headers, .body = std::move(body).value()});
}

void HttpApi::Begin(Call& call, Result<ApiRequest> parsed) {
  if (call.over) return;
  if (!parsed.ok()) {
    return Refuse(call, parsed.status(), TextWorkers::RetryAfter(parsed.status()));
  }
  size_t prompt_tokens = 0;
  for (GenerationRequest& prompt : parsed->prompts) {
    prompt.client = call.client;
    prompt.trace = call.record->link();
    prompt_tokens += prompt.prompt.size();
  }
  if (!call.has_prefix) {
    const auto name =
        PrefixNameOf(parsed->prompts.front().prompt, static_cast<size_t>(served_.page_tokens));
    if (name.has_value()) call.headers.emplace_back(kPrefixHeader, *name);
  }
  call.record->Describe(parsed->prompts.front(), prompt_tokens);
  ApiAnswer answer(*parsed, served_.model, call.number, call.created);
  std::make_shared<HttpGeneration>(HttpGeneration::Parts{.intake = intake_,
                                                         .metrics = metrics_,
                                                         .route = call.route->name,
                                                         .headers = call.headers,
                                                         .pad_events = served_.pad_events,
                                                         .record = call.record},
                                   std::move(parsed).value(), std::move(answer), call.exchange)
      ->Start();
}

void HttpApi::Refuse(Call& call, const Status& status, std::optional<Duration> after) {
  call.over = true;
  EndRecord(call, status, HttpCodeOf(status));
  metrics_->CountRequest(call.route->name, HttpCodeOf(status));
  call.exchange->Reply(ErrorReply(status, after, call.headers));
}

void HttpApi::EndRecord(const Call& call, const Status& status, int http_code) {
  if (call.record == nullptr) return;
  call.record->End(status, {{"http.response.status_code", int64_t{http_code}}});
}

}  // namespace outrider
