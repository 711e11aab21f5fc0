#include "verifier/engine/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr RequestLimits kLimits{
    .vocab_size = 32, .max_context = 64, .kv_tokens = 48, .max_draft_length = 8};

GenerationRequest Good() { return {.prompt = {1, 2, 3}, .max_tokens = 10}; }

TEST(Request, GoodOnePasses) { EXPECT_TRUE(Validate(Good(), kLimits).ok()); }

TEST(Request, WithoutMaxTokensTheContextIsTheBound) {
  GenerationRequest request = Good();
  request.max_tokens.reset();
  EXPECT_EQ(MaxNewTokens(request, kLimits), 61);
  RequestLimits roomy = kLimits;
  roomy.kv_tokens = 64;
  EXPECT_TRUE(Validate(request, roomy).ok());
}

TEST(Request, OneThatCanNeverFitIsRefusedWithTheNumbers) {
  GenerationRequest request = Good();
  request.max_tokens = 50;
  const Status status = Validate(request, kLimits);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("53"));
  EXPECT_THAT(status.message(), HasSubstr("48"));
}

struct BadCase {
  const char* field;
  void (*change)(GenerationRequest&);
};

class BadRequest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadRequest, IsRefusedByName) {
  GenerationRequest request = Good();
  GetParam().change(request);
  const Status status = Validate(request, kLimits);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().field));
}

INSTANTIATE_TEST_SUITE_P(
    Request, BadRequest,
    ::testing::Values(
        BadCase{"prompt", [](GenerationRequest& r) { r.prompt.clear(); }},
        BadCase{"prompt", [](GenerationRequest& r) { r.prompt.push_back(32); }},
        BadCase{"prompt", [](GenerationRequest& r) { r.prompt.push_back(-1); }},
        BadCase{"prompt", [](GenerationRequest& r) { r.prompt.assign(64, 1); }},
        BadCase{"max_tokens", [](GenerationRequest& r) { r.max_tokens = 0; }},
        BadCase{"max_tokens", [](GenerationRequest& r) { r.max_tokens = 62; }},
        BadCase{"temperature", [](GenerationRequest& r) { r.sampling.temperature = -1; }},
        BadCase{"stop_token_ids", [](GenerationRequest& r) { r.stop_tokens = {99}; }},
        BadCase{"stop_strings", [](GenerationRequest& r) { r.stop_strings = {""}; }},
        BadCase{"stop_strings", [](GenerationRequest& r) { r.stop_strings.assign(17, "x"); }},
        BadCase{"stop_strings",
                [](GenerationRequest& r) { r.stop_strings = {std::string(2000, 'x')}; }},
        BadCase{"draft_length", [](GenerationRequest& r) { r.speculation.draft_length = 9; }},
        BadCase{"draft_length", [](GenerationRequest& r) { r.speculation.draft_length = -1; }}));

}  // namespace
}  // namespace outrider
