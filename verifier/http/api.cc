#include "verifier/http/api.h"

#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "verifier/http/api_answer.h"
#include "verifier/http/api_error.h"
#include "verifier/http/generation.h"

namespace outrider {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kModels = "/v1/models";

struct Route {
  const char* name;  // in metrics
  const char* method;
  bool needs_token;
};
constexpr Route kCompletions{"completions", "POST", true};
constexpr Route kChat{"chat_completions", "POST", true};
constexpr Route kModelList{"models", "GET", true};
constexpr Route kHealth{"health", "GET", false};
constexpr char kOther[] = "other";

const Route* RouteOf(std::string_view path) {
  if (path == "/v1/completions") return &kCompletions;
  if (path == "/v1/chat/completions") return &kChat;
  if (path == kModels || path.starts_with("/v1/models/")) return &kModelList;
  if (path == "/health") return &kHealth;
  return nullptr;
}

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// "org%2Fname" as "org/name". What is no escape stays as it is, and names no model.
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

// "application/json", with or without parameters. Others are refused: a web page may send those to
// any address, the loopback too, without asking.
bool IsJson(const std::string& content_type) {
  constexpr std::string_view kJson = "application/json";
  const std::string_view type = std::string_view(content_type).substr(0, kJson.size());
  return type == kJson && (content_type.size() == kJson.size() ||
                           content_type[kJson.size()] == ';' || content_type[kJson.size()] == ' ');
}

}  // namespace

HttpApi::HttpApi(Served served, Intake* intake, HttpMetrics* metrics)
    : served_(std::move(served)), intake_(intake), metrics_(metrics), started_(UnixSeconds()) {}

std::optional<HttpReply> HttpApi::Admit(const HttpRequest& head) {
  const Route* route = RouteOf(head.path);
  const auto refuse = [&](HttpReply reply) {
    metrics_->CountRequest(route == nullptr ? kOther : route->name, reply.code);
    return reply;
  };
  if (route == nullptr) {
    return refuse({.code = 404, .body = ErrorJson(404, "there is nothing at this path")});
  }
  const bool is_head = head.method == "HEAD" && std::string_view(route->method) == "GET";
  if (head.method != route->method && !is_head) {
    return refuse({.code = 405,
                   .headers = {{"Allow", route->method}},
                   .body = ErrorJson(405, std::string("this path takes ") + route->method)});
  }
  if (draining_ && route != &kModelList) {
    return refuse(ErrorReply(Unavailable("the verifier is draining and takes no new requests")));
  }
  if (!route->needs_token) return std::nullopt;
  const Result<std::string> client = served_.tokens->Admit(head.authorization, head.client);
  if (!client.ok()) return refuse(ErrorReply(client.status()));
  if (std::string_view(route->method) == "POST" && !IsJson(head.content_type)) {
    return refuse(
        {.code = 415, .body = ErrorJson(415, "the body must be Content-Type: application/json")});
  }
  return std::nullopt;
}

HttpReply HttpApi::Malformed(int code, const std::string& message) {
  metrics_->CountRequest(kOther, code);
  return {.code = code, .body = ErrorJson(code, message)};
}

void HttpApi::Handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  const Route* route = RouteOf(request.path);
  if (route == &kCompletions || route == &kChat) {
    return Generate(request, route == &kChat, std::move(exchange));
  }
  HttpReply reply =
      route == &kHealth ? HttpReply{.body = R"({"status":"ready"})"} : Models(request.path);
  metrics_->CountRequest(route->name, reply.code);
  exchange->Reply(std::move(reply));
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
  return ErrorReply(NotFound("model: \"" + name + "\" is not served here"));
}

void HttpApi::Generate(const HttpRequest& request, bool chat,
                       std::shared_ptr<HttpExchange> exchange) {
  const uint64_t number = ++requests_;
  const int64_t now = UnixSeconds();
  const Route& route = chat ? kChat : kCompletions;
  const std::string id = request.request_id.empty()
                             ? "req-" + std::to_string(now) + "-" + std::to_string(number)
                             : request.request_id;
  const HttpHeaders headers = {{"x-request-id", id}};
  std::shared_ptr<RequestTrace> span;
  const auto refuse = [&](const Status& status) {
    if (span != nullptr) {
      span->End(status, {{"http.response.status_code", int64_t{HttpCodeOf(status)}}});
    }
    metrics_->CountRequest(route.name, HttpCodeOf(status));
    exchange->Reply(ErrorReply(status, std::nullopt, headers));
  };
  const Result<std::string> client = served_.tokens->Admit(request.authorization, request.client);
  if (!client.ok()) return refuse(client.status());
  // From here on: who may not call leaves no spans either.
  RequestTrace::Started trace = RequestTrace::Start(served_.tracer, request.trace);
  span = trace.span;
  if (span != nullptr) {
    span->Name(request.method + " " + request.path,
               {{"http.request.method", request.method},
                {"http.route", request.path},
                {"url.path", request.path},
                {"gen_ai.operation.name", chat ? "chat" : "text_completion"},
                {"gen_ai.provider.name", "outrider"},
                {"gen_ai.request.model", served_.model.name},
                {"outrider.request_id", id}});
  }
  Result<ApiRequest> parsed =
      chat ? ParseChat(request.body, served_.model) : ParseCompletion(request.body, served_.model);
  if (!parsed.ok()) return refuse(parsed.status());
  if (span != nullptr) span->Describe(parsed->prompts.front());
  for (GenerationRequest& prompt : parsed->prompts) {
    prompt.client = *client;
    prompt.trace = trace.link;
  }
  ApiAnswer answer(*parsed, served_.model, number, now);
  std::make_shared<HttpGeneration>(HttpGeneration::Parts{.intake = intake_,
                                                         .metrics = metrics_,
                                                         .route = route.name,
                                                         .headers = headers,
                                                         .pad_events = served_.pad_events,
                                                         .trace = span},
                                   std::move(parsed).value(), std::move(answer),
                                   std::move(exchange))
      ->Start();
}

}  // namespace outrider
