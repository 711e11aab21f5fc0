// Requests whose text follows a grammar, in the engine. engine_distribution_test.cc checks that
// this does not change any distribution.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/puppet_draft_source.h"
#include "tests/support/recording_sink.h"
#include "tests/support/tiny_tokenizer.h"
#include "tests/verifier/engine/engine_device.h"
#include "verifier/engine/engine.h"

namespace outrider {
namespace {

using testing::RecordingSink;

constexpr TokenId kEnd = 25;  // "z"

class StructuredOutputTest : public ::testing::Test {
 protected:
  StructuredOutputTest() {
    testing::GiveDevice(model_);
    engine_ = std::make_unique<Engine>(EngineOptions{.admission = {.prefix_cache = false}}, &model_,
                                       tokenizer_.get(), &source_, &metrics_, &clock_);
    source_.accepts = false;
  }

  GenerationRequest RequestMatching(const std::string& regex, float temperature = 1) {
    GenerationRequest request{
        .prompt = {1, 2, 3}, .sampling = {.temperature = temperature}, .max_tokens = 40, .seed = 5};
    request.sampling.grammar = {.kind = GrammarSource::Kind::kRegex, .text = regex};
    EXPECT_TRUE(CompileGrammar(&grammars_, &request).ok());
    return request;
  }

  // One letter is forced, then another, and then the mask takes more than kStepsOfALetter.
  static constexpr const char* kWideAfterAb = "ab[acegikmoqsuwy]{3}";
  static constexpr int64_t kStepsOfALetter = 100;

  void CompileWithin(const grammar::GrammarMasks::Limits& limits, GenerationRequest& request) {
    grammar::GrammarCache cache(Letters(), {.masks = limits});
    EXPECT_TRUE(CompileGrammar(&cache, &request).ok());
  }

  std::shared_ptr<RecordingSink> Run(GenerationRequest request) {
    const auto sink = std::make_shared<RecordingSink>();
    const Status status = engine_->Submit(++id_, std::move(request), sink);
    EXPECT_TRUE(status.ok()) << status.ToString();
    while (engine_->Step()) {
    }
    EXPECT_TRUE(sink->ended);
    EXPECT_EQ(model_.free_pages(), model_.total_pages());
    return sink;
  }

  static std::shared_ptr<const grammar::TokenTable> Letters() {
    static const std::string alphabet = "abcdefghijklmnopqrstuvwxy";
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < alphabet.size(); ++i) {
      bytes.push_back(std::string_view(alphabet).substr(i, 1));
    }
    return grammar::TokenTable::Create(bytes, {{kEnd}}, 32).value();
  }

  FakeModel model_{{.vocab_size = 32, .total_pages = 64, .eos_token_ids = {kEnd}}};
  std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::FromJson(testing::TinyTokenizerJson(26)).value();
  testing::PuppetDraftSource source_;
  testing::FakeClock clock_;
  MetricsRegistry registry_;
  VerifierMetrics metrics_{registry_};
  grammar::GrammarCache grammars_{Letters(), {}};
  std::unique_ptr<Engine> engine_;
  uint64_t id_ = 0;
};

TEST_F(StructuredOutputTest, ForcedTokensTakeOneForwardPass) {
  const auto sink = Run(RequestMatching("abcabc"));
  EXPECT_EQ(sink->text, "abcabc");
  EXPECT_EQ(sink->summary.reason, FinishReason::kStop);
  EXPECT_EQ(sink->summary.rounds, 1);
  EXPECT_EQ(sink->summary.forced_tokens, 7);  // including the end token
  // They were not drafted by a drafter.
  EXPECT_EQ(sink->summary.drafted_tokens, 0);
  EXPECT_EQ(sink->summary.drafted_rounds, 0);
  EXPECT_EQ(metrics_.forced_tokens_total.value(), 7);
  EXPECT_EQ(metrics_.spec_decode_num_draft_tokens_total.value(), 0);
  EXPECT_EQ(engine_->Snapshot().proposer_shares[static_cast<size_t>(Proposer::Kind::kGrammar)], 1);
}

// Masks that are not kept cost the same in every round, whether they are made in it or ahead, where
// it is chosen.
TEST_F(StructuredOutputTest, CostlyMasksTakeTurns) {
  for (const bool speculates : {true, false}) {
    EngineOptions options{.admission = {.prefix_cache = false}};
    options.scheduler.mask_steps = 1;
    engine_ =
        std::make_unique<Engine>(options, &model_, tokenizer_.get(), &source_, &metrics_, &clock_);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 3; ++i) {
      GenerationRequest request = RequestMatching("[abc]{6}");
      CompileWithin({.cache_bytes = 0}, request);
      request.speculation.enabled = speculates;
      sinks.push_back(std::make_shared<RecordingSink>());
      ASSERT_TRUE(engine_->Submit(++id_, std::move(request), sinks.back()).ok());
    }
    int steps = 0;
    while (engine_->Step()) ++steps;
    EXPECT_GE(steps, 3 * 6) << "one round of a letter in each";
    for (const auto& sink : sinks) EXPECT_EQ(sink->text.size(), 6u);
  }
}

TEST_F(StructuredOutputTest, SpeculationOffForcesNoTokens) {
  GenerationRequest request = RequestMatching("abcabc");
  request.speculation.enabled = false;
  const auto sink = Run(std::move(request));
  EXPECT_EQ(sink->text, "abcabc");
  EXPECT_EQ(sink->summary.rounds, 7);
  EXPECT_EQ(sink->summary.forced_tokens, 0);
}

TEST_F(StructuredOutputTest, ForcedTokensEndWithTheOutput) {
  GenerationRequest request = RequestMatching("abcabc");
  request.max_tokens = 3;
  const auto sink = Run(std::move(request));
  EXPECT_EQ(sink->text, "abc");
  EXPECT_EQ(sink->summary.reason, FinishReason::kLength);
  EXPECT_EQ(sink->summary.completion_tokens, 3);
}

TEST_F(StructuredOutputTest, CutCharacterIsLeftOut) {
  const std::string party = "\U0001F389";
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < party.size(); ++i) bytes.push_back(std::string_view(party).substr(i, 1));
  grammar::GrammarCache grammars(grammar::TokenTable::Create(bytes, {{kEnd}}, 32).value(), {});
  engine_.reset();
  tokenizer_ =  // each byte in the byte alphabet
      Tokenizer::FromJson(testing::TokenizerJsonOf({"\u00f0", "\u0141", "\u0130", "\u012b"}))
          .value();
  engine_ = std::make_unique<Engine>(EngineOptions{.admission = {.prefix_cache = false}}, &model_,
                                     tokenizer_.get(), &source_, &metrics_, &clock_);
  for (int tokens = 1; tokens <= 4; ++tokens) {
    GenerationRequest request{.prompt = {1, 2, 3}, .max_tokens = tokens};
    request.sampling.grammar = {.kind = GrammarSource::Kind::kRegex, .text = party};
    ASSERT_TRUE(CompileGrammar(&grammars, &request).ok());
    EXPECT_EQ(Run(std::move(request))->text, tokens < 4 ? "" : party) << tokens;
  }
}

TEST_F(StructuredOutputTest, ForcedTokensDoNotChangeText) {
  for (const float temperature : {0.f, 1.f}) {
    GenerationRequest request = RequestMatching("(abc|bcd){4}(x|yy)", temperature);
    request.speculation.rule = Rule::kGumbel;
    GenerationRequest plain = request;
    plain.speculation.enabled = false;
    const auto with = Run(std::move(request)), without = Run(std::move(plain));
    EXPECT_EQ(with->text, without->text);
    EXPECT_EQ(with->text.size() - (with->text.back() == 'y' ? 1 : 0), 13u) << with->text;
    EXPECT_GT(with->summary.forced_tokens, 8);
    EXPECT_LT(with->summary.rounds, without->summary.rounds);
  }
}

// Up to that point, with forced tokens as well as without.
TEST_F(StructuredOutputTest, TooAmbiguousGrammarEndsRequest) {
  for (const bool speculates : {false, true}) {
    GenerationRequest request = RequestMatching(kWideAfterAb);
    CompileWithin({.node_steps = kStepsOfALetter}, request);
    request.speculation.enabled = speculates;
    const auto sink = Run(std::move(request));
    EXPECT_EQ(sink->text, "ab") << speculates;
    EXPECT_EQ(sink->status.code(), Code::kInvalidArgument);
    EXPECT_NE(sink->status.message().find("too ambiguous"), std::string::npos)
        << sink->status.message();
  }
}

// If a text has ended, it does not matter whether a mask could have followed.
TEST_F(StructuredOutputTest, StopPrecedesFailingMask) {
  for (const bool speculates : {false, true}) {
    GenerationRequest request = RequestMatching(kWideAfterAb);
    CompileWithin({.node_steps = kStepsOfALetter}, request);
    request.speculation.enabled = speculates;
    request.stop_strings = {"b"};
    const auto sink = Run(std::move(request));
    EXPECT_TRUE(sink->status.ok()) << sink->status.ToString();
    EXPECT_EQ(sink->text, "a");
    EXPECT_EQ(sink->summary.reason, FinishReason::kStop);
  }
}

// A round spends a bounded number of steps on a draft, and cuts it where they end.
TEST_F(StructuredOutputTest, DraftsEndWhereTheirStepsDo) {
  GenerationRequest request = RequestMatching("[a-y]{20}");
  request.speculation.rule = Rule::kGumbel;
  GenerationRequest plain = request;
  plain.speculation.enabled = false;
  const auto want = Run(std::move(plain));
  ASSERT_EQ(want->text.size(), 20u);
  std::vector<TokenId> draft;
  for (const char letter : want->text) draft.push_back(letter - 'a');
  for (const auto& [steps, tokens] :
       {std::pair(int64_t{8'000'000}, 4u), std::pair(int64_t{1}, 2u), std::pair(int64_t{0}, 1u)}) {
    source_.accepts = true;
    GenerationRequest bounded = request;
    CompileWithin({.round_steps = steps}, bounded);
    bounded.speculation.draft_length = 3;
    const auto sink = std::make_shared<RecordingSink>();
    ASSERT_TRUE(engine_->Submit(++id_, std::move(bounded), sink).ok());
    while (engine_->Step()) {
    }
    engine_->draft_consumer().OnDraft(id_, source_.plan(id_).round,
                                      DraftTree::Chain(std::span(draft).first(3), {}),
                                      /*complete=*/true);
    ASSERT_TRUE(engine_->Step());
    EXPECT_EQ(sink->tokens.size(), tokens) << steps;
    engine_->draft_consumer().OnDrafterLost(id_);
    source_.accepts = false;
    while (engine_->Step()) {
    }
    EXPECT_EQ(sink->text, want->text) << steps;
  }
}

// The text before is sent, in a separate round or as a draft of the same round.
TEST_F(StructuredOutputTest, OtherMasksMayExcludeWholeGrammar) {
  for (const bool speculates : {false, true}) {
    GenerationRequest request = RequestMatching("abc");
    request.sampling.allowed_tokens = {0, 1, kEnd};
    request.speculation.enabled = speculates;
    const auto sink = Run(std::move(request));
    EXPECT_EQ(sink->text, "ab") << speculates;
    EXPECT_EQ(sink->status.code(), Code::kInvalidArgument);
    EXPECT_NE(sink->status.message().find("the grammar leave no token to sample"),
              std::string::npos)
        << sink->status.message();
  }
}

// Older sequences repeatedly take its pages; its position in the grammar is kept with the text.
TEST_F(StructuredOutputTest, PreemptionChangesNoText) {
  for (const float temperature : {0.f, 1.f}) {
    for (const Rule rule : {Rule::kBlock, Rule::kGumbel}) {
      // After each three letters two are forced.
      GenerationRequest request = RequestMatching("([c-y]{3}ab){18}", temperature);
      request.max_tokens = 100;
      request.sampling.presence_penalty = 0.2f;
      request.speculation.rule = rule;
      const auto alone = Run(request);
      ASSERT_EQ(alone->text.size(), 90u);
      EXPECT_GT(alone->summary.forced_tokens, 30);
      const double before = metrics_.num_preemptions_total.value();
      for (int i = 0; i < 5; ++i) {
        const GenerationRequest other{.prompt = {1, 2, 3}, .max_tokens = 90, .ignore_eos = true};
        ASSERT_TRUE(engine_->Submit(++id_, other, std::make_shared<RecordingSink>()).ok());
      }
      const auto beside = Run(request);
      EXPECT_GT(metrics_.num_preemptions_total.value(), before);
      EXPECT_EQ(beside->text, alone->text);
      EXPECT_EQ(beside->summary.reason, FinishReason::kStop);
      EXPECT_EQ(beside->summary.forced_tokens, alone->summary.forced_tokens);
    }
  }
}

TEST_F(StructuredOutputTest, GrammarNeedsEndToken) {
  grammar::GrammarCache endless(
      grammar::TokenTable::Create(std::vector<std::string_view>{"a"}, {}, 32).value(), {});
  GenerationRequest request{.prompt = {1}};
  request.sampling.grammar = {.kind = GrammarSource::Kind::kRegex, .text = "a"};
  EXPECT_EQ(CompileGrammar(&endless, &request).code(), Code::kFailedPrecondition);
}

TEST_F(StructuredOutputTest, EndsOfSequenceCannotBeIgnored) {
  GenerationRequest request = RequestMatching("abc");
  request.ignore_eos = true;
  const Status status = Validate(request, engine_->limits());
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("ignore_eos"), std::string::npos);
}

}  // namespace
}  // namespace outrider
