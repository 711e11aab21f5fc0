#include "verifier/engine/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

const RequestLimits kLimits{.vocab_size = 32,
                            .max_context = 64,
                            .kv_tokens = 48,
                            .max_draft_length = 8,
                            .max_paths = 4,
                            .max_draft_tokens = 24};
constexpr SpeculationDefaults kDefaults{.draft_length = 5, .paths = 1};

GenerationRequest Good() { return {.prompt = {1, 2, 3}, .max_tokens = 10}; }

TEST(Request, GoodOnePasses) { EXPECT_TRUE(Validate(Good(), kLimits).ok()); }

TEST(Request, CacheBoundsUnsetMaxTokens) {
  GenerationRequest request = Good();
  request.max_tokens.reset();
  EXPECT_EQ(MaxNewTokens(request, kLimits), 45);
  EXPECT_TRUE(Validate(request, kLimits).ok());
  RequestLimits roomy = kLimits;
  roomy.kv_tokens = 100;
  EXPECT_EQ(MaxNewTokens(request, roomy), 61);
  EXPECT_TRUE(Validate(request, roomy).ok());
  // A prompt that fills the cache by itself.
  request.prompt.assign(48, 1);
  const Status status = Validate(request, kLimits);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("need 49 tokens of KV cache"));
}

TEST(Request, RefusesRequestThatCannotFit) {
  GenerationRequest request = Good();
  request.max_tokens = 50;
  const Status status = Validate(request, kLimits);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("53"));
  EXPECT_THAT(status.message(), HasSubstr("48"));
}

struct BadCase {
  const char* name;
  const char* words;  // of the error
  void (*change)(GenerationRequest&);
  Code code = Code::kInvalidArgument;
};

class BadRequest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadRequest, IsRefusedByName) {
  GenerationRequest request = Good();
  GetParam().change(request);
  const Status status = Validate(request, kLimits);
  EXPECT_EQ(status.code(), GetParam().code);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    Request, BadRequest,
    ::testing::Values(
        BadCase{"EmptyPrompt", "prompt", [](GenerationRequest& r) { r.prompt.clear(); }},
        BadCase{"ManyLogprobs", "logprobs", [](GenerationRequest& r) { r.logprobs = 21; }},
        BadCase{"NegativeLogprobs", "logprobs", [](GenerationRequest& r) { r.logprobs = -1; }},
        BadCase{"TokenBeyondVocabulary", "prompt",
                [](GenerationRequest& r) { r.prompt.push_back(32); }},
        BadCase{"NegativeToken", "prompt", [](GenerationRequest& r) { r.prompt.push_back(-1); }},
        BadCase{"PromptOfWholeContext", "prompt",
                [](GenerationRequest& r) { r.prompt.assign(64, 1); }, Code::kOutOfRange},
        BadCase{"NoTokens", "max_tokens", [](GenerationRequest& r) { r.max_tokens = 0; }},
        BadCase{"MoreTokensThanContext", "max_tokens",
                [](GenerationRequest& r) { r.max_tokens = 62; }, Code::kOutOfRange},
        BadCase{"MinTokensAboveMax", "min_tokens", [](GenerationRequest& r) { r.min_tokens = 11; }},
        BadCase{"NegativeMinTokens", "min_tokens", [](GenerationRequest& r) { r.min_tokens = -1; }},
        BadCase{"NegativeTemperature", "temperature",
                [](GenerationRequest& r) { r.sampling.temperature = -1; }},
        BadCase{"UnknownStopToken", "stop_token_ids",
                [](GenerationRequest& r) { r.stop_tokens = {99}; }},
        BadCase{"ManyStopTokens", "stop.stop_token_ids: 257 entries, at most 256",
                [](GenerationRequest& r) { r.stop_tokens.assign(257, 1); }},
        BadCase{"ManyBiases", "logit_bias: 1025 entries, at most 1024",
                [](GenerationRequest& r) {
                  r.sampling.logit_bias.assign(1025, {1, 1.f});
                }},
        BadCase{"EmptyStopString", "stop_strings",
                [](GenerationRequest& r) { r.stop_strings = {""}; }},
        BadCase{"ManyStopStrings", "stop_strings",
                [](GenerationRequest& r) { r.stop_strings.assign(17, "x"); }},
        BadCase{"LongStopString", "stop_strings",
                [](GenerationRequest& r) { r.stop_strings = {std::string(2000, 'x')}; }},
        BadCase{"LongDraft", "draft_length",
                [](GenerationRequest& r) { r.speculation.draft_length = 9; }},
        BadCase{"NegativeDraftLength", "draft_length",
                [](GenerationRequest& r) { r.speculation.draft_length = -1; }},
        BadCase{"ManyPaths", "paths", [](GenerationRequest& r) { r.speculation.paths = 5; }},
        BadCase{"ThresholdAboveOne", "threshold",
                [](GenerationRequest& r) {
                  r.speculation.stop = {.kind = StopRule::Kind::kHead, .threshold = 1.5f};
                }},
        BadCase{"TreeLevelWithoutDraws", "tree",
                [](GenerationRequest& r) {
                  r.speculation.tree = {2, 0};
                }},
        BadCase{"WideTree", "tree",
                [](GenerationRequest& r) {
                  r.speculation.tree = {4, 4, 4};
                }},
        BadCase{"DeepTree", "tree", [](GenerationRequest& r) { r.speculation.tree.assign(9, 1); }},
        BadCase{"TreeAndPaths", "tree",
                [](GenerationRequest& r) {
                  r.speculation.tree = {2, 2};
                  r.speculation.paths = 2;
                }},
        BadCase{"PathsForBlockRule", "one sequence",
                [](GenerationRequest& r) {
                  r.speculation.rule = Rule::kBlock;
                  r.speculation.paths = 2;
                }},
        BadCase{"TreeForTokenRule", "one sequence",
                [](GenerationRequest& r) {
                  r.speculation.rule = Rule::kToken;
                  r.speculation.tree = {1, 2};
                }}),
    [](const ::testing::TestParamInfo<BadCase>& test) { return test.param.name; });

TEST(Speculation, DefaultRuleDependsOnPaths) {
  GenerationRequest request = Good();
  ResolvedSpeculation plan = ResolveSpeculation(request, kDefaults, kLimits);
  EXPECT_EQ(plan.rule, Rule::kBlock);
  EXPECT_EQ(plan.kind, DraftKind::kSampled);
  EXPECT_EQ(plan.shape, Sequences(1, 5));
  request.speculation.paths = 3;
  plan = ResolveSpeculation(request, kDefaults, kLimits);
  EXPECT_EQ(plan.rule, Rule::kMultiPathBlock);
  EXPECT_EQ(plan.shape, Sequences(3, 5));
  request.speculation = {.tree = {3, 1, 2}};
  plan = ResolveSpeculation(request, kDefaults, kLimits);
  EXPECT_EQ(plan.rule, Rule::kMultiPathBlock);
  EXPECT_EQ(plan.shape, (DraftShape{3, {3, 1, 2}}));
}

TEST(Speculation, SingleSequenceRuleDraftsOnePath) {
  GenerationRequest request = Good();
  request.speculation.rule = Rule::kBlock;
  EXPECT_EQ(ResolveSpeculation(request, {.draft_length = 4, .paths = 4}, kLimits).shape,
            Sequences(1, 4));
}

TEST(Speculation, CutsDraftsToDrawLimit) {
  GenerationRequest request = Good();
  request.speculation = {.draft_length = 8, .paths = 4};
  EXPECT_EQ(ResolveSpeculation(request, kDefaults, kLimits).shape, Sequences(4, 6)) << "24 draws";
}

TEST(Speculation, RequestStopRuleOverridesServers) {
  SpeculationDefaults defaults = kDefaults;
  defaults.stop = {.kind = StopRule::Kind::kEntropy, .threshold = 1.f};
  GenerationRequest request = Good();
  EXPECT_EQ(ResolveSpeculation(request, kDefaults, kLimits).stop, StopRule{});
  EXPECT_EQ(ResolveSpeculation(request, defaults, kLimits).stop, defaults.stop);
  request.speculation.stop = StopRule{};
  EXPECT_EQ(ResolveSpeculation(request, defaults, kLimits).stop, StopRule{});
  // A stop rule without a threshold gets the default one; the head's is chosen by the drafter.
  request.speculation.stop->kind = StopRule::Kind::kConfidence;
  EXPECT_EQ(ResolveSpeculation(request, defaults, kLimits).stop.threshold, 0.3f);
  request.speculation.stop->kind = StopRule::Kind::kHead;
  EXPECT_EQ(ResolveSpeculation(request, defaults, kLimits).stop.threshold, 0.f);
}

TEST(Speculation, KindFollowsRuleAndTemperature) {
  GenerationRequest request = Good();
  request.speculation.rule = Rule::kGumbel;
  EXPECT_EQ(ResolveSpeculation(request, kDefaults, kLimits).kind, DraftKind::kRace);
  request.sampling.temperature = 0;
  EXPECT_EQ(ResolveSpeculation(request, kDefaults, kLimits).kind, DraftKind::kArgmax);
}

TEST(Speculation, UntrustedDraftersAllowGumbelAndGreedy) {
  RequestLimits limits = kLimits;
  limits.untrusted_drafters = true;
  GenerationRequest request = Good();
  EXPECT_EQ(ResolveSpeculation(request, kDefaults, limits).rule, Rule::kGumbel);
  for (const auto& [rule, name, many_paths] : kRuleTraits) {
    request.speculation.rule = rule;
    EXPECT_EQ(Validate(request, limits).ok(), rule == Rule::kGumbel) << name;
  }
  request.speculation.rule = Rule::kBlock;
  EXPECT_EQ(Validate(request, limits).code(), Code::kFailedPrecondition);
  request.sampling.temperature = 0;
  EXPECT_TRUE(Validate(request, limits).ok());
  request.sampling.temperature = 1;
  request.speculation.enabled = false;
  EXPECT_TRUE(Validate(request, limits).ok());
}

TEST(BadWords, CoverStartAndMiddleSpellings) {
  const auto tokenizer = Tokenizer::FromJson(testing::SpecialTokenizerJson()).value();
  const auto tokens = [&](const std::vector<std::string>& words) {
    return BadWordTokens(*tokenizer, words, kLimits);
  };
  using Words = std::vector<std::vector<TokenId>>;
  EXPECT_EQ(*tokens({"ab", " c", "<x>"}), (Words{{0, 1}, {2}, {testing::kMarkToken}}))
      << "after a space a word of letters has a token more";
  EXPECT_THAT(tokens({" "}).status().message(), HasSubstr("bad_words: a word without a letter"));
  EXPECT_THAT(tokens(std::vector<std::string>(257, "a")).status().message(),
              HasSubstr("bad_words: 257 entries, at most 256"));
  EXPECT_THAT(tokens({std::string(1025, 'a')}).status().message(),
              HasSubstr("bad_words: 1025 bytes in one, at most 1024"));
}

// In GPT-2's kind of tokenizer, tokens include the space before a word.
TEST(BadWords, LeadingSpaceIsAnotherToken) {
  std::string json = testing::AsciiTokenizerJson();
  const auto replace = [&](const std::string& from, const std::string& to) {
    json.replace(json.find(from), from.size(), to);
  };
  replace(R"("vocab":{)", R"("vocab":{"\u0120a":96,)");
  replace(R"("merges":[])", R"("merges":["\u0120 a"])");
  const auto tokenizer = Tokenizer::FromJson(json).value();
  const std::vector<std::string> words = {"a", "ab"};
  EXPECT_EQ(*BadWordTokens(*tokenizer, words, kLimits),
            (std::vector<std::vector<TokenId>>{{0}, {96}, {0, 1}, {96, 1}}));
}

TEST(Request, FindsSpecialTokensInStopStrings) {
  const auto tokenizer = Tokenizer::FromJson(testing::SpecialTokenizerJson()).value();
  const auto holds = [&](const std::vector<std::string>& texts) {
    return *AnyHoldsSpecialToken(*tokenizer, texts);
  };
  EXPECT_FALSE(holds({}));
  EXPECT_FALSE(holds({"abc", "<x", "x>"}));
  EXPECT_TRUE(holds({"abc", "a<x>b"}));
}

TEST(Request, RequestOverridesModelMaxTokens) {
  RequestLimits limits = kLimits;
  limits.defaults.max_tokens = 20;
  GenerationRequest request = NewRequest(limits);
  request.prompt = {1, 2, 3};
  EXPECT_EQ(MaxNewTokens(request, limits), 20);
  request.max_tokens = 30;
  EXPECT_EQ(MaxNewTokens(request, limits), 30);
  request.max_tokens.reset();
  request.prompt.assign(60, 1);
  limits.kv_tokens = 64;
  EXPECT_TRUE(Validate(request, limits).ok());
  EXPECT_EQ(MaxNewTokens(request, limits), 4);
}

}  // namespace
}  // namespace outrider
