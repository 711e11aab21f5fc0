#include "verifier/rpc/generation_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

class Detokenizes : public ::testing::Test {
 protected:
  static constexpr size_t kLong = 256;

  // Token 0 is "a", token 1 as many of them as an added token may have.
  Detokenizes() {
    tokenizer_ =
        Tokenizer::FromJson(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},)"
                            R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                            R"("decoder":{"type":"ByteLevel"},)"
                            R"("added_tokens":[{"id":1,"special":false,"content":")" +
                            std::string(kLong, 'a') + R"("}]})")
            .value();
  }

  Result<std::string> Run(uint32_t id, int count) const {
    v1::DetokenizeRequest request;
    for (int i = 0; i < count; ++i) request.add_token_ids(id);
    return Detokenize(request, *tokenizer_, 2);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Detokenizes, IdsOfTheModel) {
  EXPECT_EQ(Run(0, 3).value(), "aaa");
  EXPECT_EQ(Run(2, 1).status().code(), Code::kInvalidArgument);
}

TEST_F(Detokenizes, AtMostMaximalText) {
  constexpr int kMax = static_cast<int>(Tokenizer::kMaxTextBytes / kLong);
  EXPECT_TRUE(Run(1, kMax).ok());
  EXPECT_EQ(Run(1, kMax + 1).status().code(), Code::kInvalidArgument);
}

TEST(GenerationWire, ErrorsShowHugeNumbersAsSent) {
  static constexpr uint32_t kSent = 4'000'000'000;
  const auto tokenizer = Tokenizer::FromJson(testing::AsciiTokenizerJson()).value();
  const RequestLimits limits{.vocab_size = testing::kAsciiTokens,
                             .max_context = 100,
                             .kv_tokens = 100,
                             .max_draft_length = 8,
                             .max_paths = 4,
                             .max_draft_tokens = 24};
  const auto expect = [&](const std::string& message, auto set) {
    v1::GenerateRequest wire;
    wire.set_text("a");
    set(wire);
    const Status status = FromWire(wire, *tokenizer, limits).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
  };
  const std::string no_token = ": token id 4000000000 is not in the vocabulary of 96";
  expect("token_ids" + no_token, [](auto& wire) { wire.mutable_token_ids()->add_ids(kSent); });
  expect("stop.stop_token_ids" + no_token,
         [](auto& wire) { wire.mutable_stop()->add_stop_token_ids(kSent); });
  expect("sampling.logit_bias" + no_token,
         [](auto& wire) { (*wire.mutable_sampling()->mutable_logit_bias())[uint32_t{kSent}] = 1; });
  expect("stop.max_tokens: 4000000000, at most 100",
         [](auto& wire) { wire.mutable_stop()->set_max_tokens(kSent); });
  expect("stop.min_tokens: 4000000000, at most 100",
         [](auto& wire) { wire.mutable_stop()->set_min_tokens(kSent); });
  expect("logprobs: 4000000000, at most 20", [](auto& wire) { wire.set_logprobs(kSent); });
  expect("prompt_logprobs: 4000000000, at most 20",
         [](auto& wire) { wire.set_prompt_logprobs(kSent); });
  expect("speculation.draft_length: 4000000000, at most 8",
         [](auto& wire) { wire.mutable_speculation()->set_draft_length(kSent); });
  expect("speculation.paths: 4000000000, at most 4",
         [](auto& wire) { wire.mutable_speculation()->set_paths(kSent); });
  expect("speculation.tree: 4000000000, at most 24",
         [](auto& wire) { wire.mutable_speculation()->add_tree(kSent); });
}

TEST(GenerationWire, PromptTextIsPlainWithPrefix) {
  const auto tokenizer = Tokenizer::FromJson(testing::SpecialTokenizerJson()).value();
  const RequestLimits limits{.vocab_size = testing::kSpecialTokens, .max_context = 100};
  v1::GenerateRequest wire;
  wire.set_text("<x>");
  const auto prompt = [&] { return FromWire(wire, *tokenizer, limits)->prompt; };
  EXPECT_EQ(prompt().size(), 4u);
  EXPECT_EQ(prompt().front(), testing::kBosToken);
  wire.set_parse_special(true);
  EXPECT_EQ(prompt(), (std::vector<TokenId>{testing::kBosToken, testing::kMarkToken}));
  wire.set_add_prefix(false);
  EXPECT_EQ(prompt(), std::vector<TokenId>{testing::kMarkToken});
  wire.set_text("");
  EXPECT_EQ(FromWire(wire, *tokenizer, limits).status().code(), Code::kInvalidArgument);
  wire.clear_add_prefix();
  EXPECT_EQ(prompt(), std::vector<TokenId>{testing::kBosToken});
}

TEST(GenerationWire, ChunksIncludePromptLogprobsIfAsked) {
  Chunk chunk{.tokens = {1}};
  chunk.prompt_logprobs = {{.logprob = -0.5f, .rank = 3, .top = {{7, -0.25f}}}};
  const v1::TokenChunk wire = ToWire(chunk).chunk();
  EXPECT_EQ(wire.logprobs_size(), 0);
  ASSERT_EQ(wire.prompt_logprobs_size(), 1);
  EXPECT_EQ(wire.prompt_logprobs(0).rank(), 3u);
  EXPECT_EQ(wire.prompt_logprobs(0).logprob(), -0.5f);
  EXPECT_EQ(wire.prompt_logprobs(0).top_token_ids(0), 7u);
}

TEST(GenerationWire, UnsetSamplingHasTheModelsDefaults) {
  const auto tokenizer = Tokenizer::FromJson(testing::AsciiTokenizerJson()).value();
  RequestLimits limits;
  limits.defaults.sampling = {
      .temperature = 0.6f, .top_k = 20, .top_p = 0.9f, .min_p = 0.1f, .repetition_penalty = 1.1f};
  v1::GenerateRequest wire;
  wire.set_text("a");
  EXPECT_EQ(FromWire(wire, *tokenizer, limits)->sampling, limits.defaults.sampling);
  // Switching a default off is not the same as leaving the field out.
  wire.mutable_sampling()->set_top_k(0);
  wire.mutable_sampling()->set_min_p(0);
  wire.mutable_sampling()->set_temperature(1);
  SamplingParams asked = limits.defaults.sampling;
  asked.temperature = 1;
  asked.top_k = 0;
  asked.min_p = 0;
  EXPECT_EQ(FromWire(wire, *tokenizer, limits)->sampling, asked);
}

TEST(GenerationWire, StructuredOutputReachesTheRequest) {
  const auto tokenizer = Tokenizer::FromJson(testing::AsciiTokenizerJson()).value();
  const RequestLimits limits{
      .vocab_size = testing::kAsciiTokens, .max_context = 100, .kv_tokens = 100};
  v1::GenerateRequest wire;
  wire.set_text("a");
  wire.mutable_sampling()->mutable_structured_output()->set_regex("a+");
  GenerationRequest request = FromWire(wire, *tokenizer, limits).value();
  EXPECT_EQ(request.sampling.grammar,
            (GrammarSource{.kind = GrammarSource::Kind::kRegex, .text = "a+"}));
  EXPECT_EQ(request.grammar_masks, nullptr) << "compiled by the one that serves it";
  EXPECT_TRUE(Validate(request, limits).ok());
  wire.mutable_stop()->set_ignore_eos(true);
  request = FromWire(wire, *tokenizer, limits).value();
  EXPECT_THAT(Validate(request, limits).message(), ::testing::StartsWith("stop.ignore_eos: "));
}

}  // namespace
}  // namespace outrider
