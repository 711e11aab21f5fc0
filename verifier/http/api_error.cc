#include "verifier/http/api_error.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "verifier/http/json_text.h"

namespace outrider {
namespace {

struct Field {
  std::string_view ours;
  std::string_view theirs;
};
// Field names of the gRPC contract and of this API, where they differ.
constexpr Field kFields[] = {{"stop.max_tokens", "max_tokens"},
                             {"stop.stop_strings", "stop"},
                             {"stop.stop_token_ids", "stop_token_ids"},
                             {"stop.min_tokens", "min_tokens"},
                             {"stop.ignore_eos", "ignore_eos"}};

// "stop.max_tokens: must be .." begins with a field's name, and so does "top_k is 3, ..".
std::string_view FieldOf(std::string_view message) {
  const size_t end = message.find_first_not_of(
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.[]0123456789");
  if (end == std::string_view::npos || end == 0) return "";
  const std::string_view rest = message.substr(end);
  const bool named =
      rest.starts_with(": ") || rest.starts_with(" is ") || rest.starts_with(" of token ");
  return named ? message.substr(0, end) : "";
}

const char* TypeOf(int http_code) {
  switch (http_code) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    case 503: return "service_unavailable_error";
    default: return http_code < 500 ? "invalid_request_error" : "server_error";
  }
}

const char* CodeOf(Code code) {
  switch (code) {
    case Code::kUnauthenticated: return "invalid_api_key";
    case Code::kNotFound: return "model_not_found";
    case Code::kResourceExhausted: return "rate_limit_exceeded";
    case Code::kOutOfRange: return "context_length_exceeded";
    default: return nullptr;
  }
}

std::string Body(int http_code, const std::string& message, std::string_view param,
                 const char* code) {
  Json error = {{"message", message}, {"type", TypeOf(http_code)}};
  error["param"] = param.empty() ? Json() : Json(param);
  error["code"] = code == nullptr ? Json() : Json(code);
  return Dump({{"error", std::move(error)}});
}

}  // namespace

int HttpCodeOf(const Status& status) {
  switch (status.code()) {
    case Code::kOk: return 200;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
    case Code::kFailedPrecondition: return 400;
    case Code::kUnauthenticated: return 401;
    case Code::kPermissionDenied: return 403;
    case Code::kNotFound: return 404;
    case Code::kResourceExhausted: return 429;
    case Code::kCancelled: return kClientGone;
    case Code::kUnimplemented: return 501;
    case Code::kUnavailable: return 503;
    case Code::kDeadlineExceeded: return 504;
    case Code::kUnknown:
    case Code::kAborted:
    case Code::kInternal:
    case Code::kDataLoss: return 500;
  }
  return 500;
}

std::string ErrorJson(const Status& status) {
  std::string message = status.message();
  std::string_view param = FieldOf(message);
  for (const Field& field : kFields) {
    if (param != field.ours) continue;
    message = std::string(field.theirs) + message.substr(field.ours.size());
    param = field.theirs;
    break;
  }
  return Body(HttpCodeOf(status), message, std::string(param), CodeOf(status.code()));
}

std::string ErrorJson(int http_code, const std::string& message) {
  return Body(http_code, message, "", nullptr);
}

HttpReply ErrorReply(const Status& status, std::optional<Duration> after, HttpHeaders headers) {
  HttpReply reply{
      .code = HttpCodeOf(status), .headers = std::move(headers), .body = ErrorJson(status)};
  if (after.has_value()) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*after).count();
    reply.headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  if (reply.code == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace outrider
