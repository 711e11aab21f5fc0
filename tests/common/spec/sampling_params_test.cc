#include "common/spec/sampling_params.h"

#include <gmock/gmock.h>

#include <limits>
#include <vector>

#include "tests/support/extreme_floats.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using testing::kInf;
using testing::kNan;

void ExpectRefused(const SamplingParams& params, const char* field) {
  const Status status = Validate(params, 100);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << field;
  EXPECT_THAT(status.message(), HasSubstr(field));
}

TEST(ValidateSamplingParams, AcceptsTheDefaultsAndTheEdges) {
  EXPECT_TRUE(Validate(SamplingParams{}, 100).ok());
  EXPECT_TRUE(
      Validate({.temperature = 0.f, .top_k = 1000, .top_p = 1e-6f, .min_p = 1.f}, 100).ok());
  EXPECT_TRUE(
      Validate({.repetition_penalty = 0.1f, .presence_penalty = -2.f, .frequency_penalty = 2.f},
               100)
          .ok());
  EXPECT_TRUE(Validate({.logit_bias = {{0, -100.f}, {99, 100.f}}}, 100).ok());
}

TEST(ValidateSamplingParams, NamesTheBadField) {
  for (const float bad : {-0.1f, kInf, kNan}) {
    ExpectRefused({.temperature = bad}, "temperature");
    ExpectRefused({.top_p = bad}, "top_p");
    ExpectRefused({.min_p = bad}, "min_p");
    ExpectRefused({.repetition_penalty = bad}, "repetition_penalty");
  }
  ExpectRefused({.top_k = -1}, "top_k");
  ExpectRefused({.top_p = 0.f}, "top_p");
  ExpectRefused({.top_p = 1.01f}, "top_p");
  ExpectRefused({.top_p = 1.0000001f}, "top_p is 1.0000001,");
  ExpectRefused({.min_p = 1.01f}, "min_p");
  ExpectRefused({.repetition_penalty = 0.f}, "repetition_penalty");
  for (const float bad : {-2.1f, 2.1f, kInf, kNan}) {
    ExpectRefused({.presence_penalty = bad}, "presence_penalty");
    ExpectRefused({.frequency_penalty = bad}, "frequency_penalty");
  }
  ExpectRefused({.logit_bias = {{100, 0.f}}}, "logit_bias of token 100");
  ExpectRefused({.logit_bias = {{-1, 0.f}}}, "logit_bias of token -1");
  ExpectRefused({.logit_bias = {{5, kNan}}}, "logit_bias of token 5");
  ExpectRefused({.logit_bias = {{5, 101.f}}}, "logit_bias of token 5");
}

TEST(ValidateSamplingParams, MasksMustNameExistingTokens) {
  EXPECT_TRUE(Validate({.allowed_tokens = {0, 99}, .bad_words = {{99}, {1, 2}}}, 100).ok());
  ExpectRefused({.allowed_tokens = {100}}, "allowed_token_ids: token id 100");
  ExpectRefused({.allowed_tokens = {-1}}, "allowed_token_ids: token id -1");
  ExpectRefused({.bad_words = {{1, 100}}}, "bad_words: token id 100");
  ExpectRefused({.bad_words = {{}}}, "bad_words: a word without tokens");
  ExpectRefused({.bad_words = {std::vector<TokenId>(65, 1)}}, "65 tokens in one, at most 64");
  ExpectRefused({.bad_words = std::vector<std::vector<TokenId>>(513, {1})},
                "bad_words: 513 entries, at most 512");
  ExpectRefused({.allowed_tokens = std::vector<TokenId>(65537, 1)},
                "allowed_token_ids: 65537 entries, at most 65536");
  ExpectRefused({.allowed_tokens = {3}, .bad_words = {{3}}}, "leave none of the tokens");
  std::vector<std::vector<TokenId>> every;
  for (TokenId id = 0; id < 100; ++id) every.push_back({id});
  ExpectRefused({.bad_words = every}, "leave none of the tokens");
}

TEST(MaskOf, CombinesAllowedTokensAndBadWords) {
  EXPECT_TRUE(MaskOf({}, 40).empty());
  EXPECT_TRUE(MaskOf({.bad_words = {{1, 2}}}, 40).empty()) << "of two tokens";
  const std::vector<uint32_t> mask =
      MaskOf({.allowed_tokens = {0, 31, 32, 39}, .bad_words = {{32}, {0, 31}}}, 40);
  ASSERT_EQ(mask.size(), 2u);
  for (TokenId id = 0; id < 40; ++id) {
    EXPECT_EQ(MaskHolds(mask.data(), id), id == 0 || id == 31 || id == 39) << id;
  }
}

}  // namespace
}  // namespace outrider
