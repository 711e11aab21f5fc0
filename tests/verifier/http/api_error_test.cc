#include "verifier/http/api_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace outrider {
namespace {

nlohmann::json ErrorOf(const Status& status) {
  return nlohmann::json::parse(ErrorReply(status).body)["error"];
}

TEST(ApiError, EveryCodeHasOneOfHttp) {
  const std::pair<Code, int> kCodes[] = {
      {Code::kInvalidArgument, 400},   {Code::kFailedPrecondition, 400},
      {Code::kUnauthenticated, 401},   {Code::kPermissionDenied, 403},
      {Code::kNotFound, 404},          {Code::kResourceExhausted, 429},
      {Code::kCancelled, kClientGone}, {Code::kInternal, 500},
      {Code::kUnimplemented, 501},     {Code::kUnavailable, 503},
      {Code::kDeadlineExceeded, 504},  {Code::kUnknown, 500}};
  for (const auto& [code, http] : kCodes) EXPECT_EQ(HttpCodeOf(Status(code, "x")), http);
}

TEST(ApiError, BodiesHaveOpenAisShape) {
  EXPECT_EQ(ErrorOf(InvalidArgument("top_p is 3, must be in (0, 1]")),
            nlohmann::json({{"message", "top_p is 3, must be in (0, 1]"},
                            {"type", "invalid_request_error"},
                            {"param", "top_p"},
                            {"code", nullptr}}));
  EXPECT_EQ(ErrorOf(NotFound("model: \"x\""))["code"], "model_not_found");
  EXPECT_EQ(ErrorOf(Unauthenticated("a token"))["code"], "invalid_api_key");
  EXPECT_EQ(ErrorOf(Internal("a \xff byte"))["type"], "server_error");
  EXPECT_EQ(ErrorOf(Internal("a \xff byte"))["message"], "a \xef\xbf\xbd byte");
}

TEST(ApiError, UsesClientsFieldNames) {
  const nlohmann::json length =
      ErrorOf(Status(Code::kOutOfRange, "stop.max_tokens: 9 .. for the context of 8"));
  EXPECT_EQ(length["param"], "max_tokens");
  EXPECT_EQ(length["message"], "max_tokens: 9 .. for the context of 8");
  EXPECT_EQ(length["code"], "context_length_exceeded");
  EXPECT_EQ(ErrorOf(NotFound("model: \"the context\" is not served here"))["code"],
            "model_not_found");
  EXPECT_EQ(ErrorOf(InvalidArgument("prompt: \"the context\" is not a token id"))["code"], nullptr)
      << "what a client wrote says nothing";
  EXPECT_EQ(ErrorOf(InvalidArgument("stop.stop_strings: an empty string"))["param"], "stop");
  EXPECT_EQ(ErrorOf(InvalidArgument("logit_bias of token 3 is 101"))["param"], "logit_bias");
  EXPECT_EQ(ErrorOf(InvalidArgument("messages[0]: role: x"))["param"], "messages[0]");
  EXPECT_EQ(ErrorOf(InvalidArgument("maxTokens is not a field"))["param"], "maxTokens");
  EXPECT_EQ(ErrorOf(InvalidArgument("stop.min_tokens: 3"))["message"], "min_tokens: 3");
  EXPECT_EQ(ErrorOf(InvalidArgument("the body is no JSON"))["param"], nullptr);
  EXPECT_EQ(ErrorOf(InvalidArgument(""))["param"], nullptr);
}

TEST(ApiError, RoundsRetryAfterUpToSeconds) {
  const HttpReply reply =
      ErrorReply(ResourceExhausted("full"), std::chrono::milliseconds(1200), {{"x", "y"}});
  EXPECT_EQ(reply.code, 429);
  EXPECT_EQ(reply.headers, (HttpHeaders{{"x", "y"}, {"Retry-After", "2"}}));
}

}  // namespace
}  // namespace outrider
