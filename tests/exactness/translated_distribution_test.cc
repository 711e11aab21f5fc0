// A drafter with another vocabulary: the output distribution is the target's under every rule, by
// enumeration of rounds over restricted and translated draft distributions, and by counting through
// engine, pool and drafting loop. Under rules whose text does not depend on drafts, it does not
// depend on such a drafter's either.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/spec/sequence_sampling.h"
#include "drafter/propose/vocabulary_map.h"
#include "tests/exactness/tolerance.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/local_pair.h"
#include "tests/support/recording_sink.h"
#include "tests/support/statistics.h"
#include "tests/support/tiny_tokenizer.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

// The drafter spells "ee" with two of its tokens, has an "e" that is never drafted, and does not
// know "<m>": four of its five tokens are shared. It may have an end token "<e>", as "<m>" is the
// target's.
std::string TargetTokens() { return TokenizerJsonOf({"a", "ee", "b", "c", "d"}, {"<m>"}); }
std::string DraftTokens(bool ends) {
  return TokenizerJsonOf({"e", "d", "c", "b", "a"},
                         ends ? std::vector<std::string>{"<e>"} : std::vector<std::string>{});
}
constexpr int kTargetVocab = 6;
constexpr int DraftVocab(bool ends) { return ends ? 6 : 5; }
// The end tokens of both models, if they have any.
std::vector<TokenId> Ends(bool ends) {
  return ends ? std::vector<TokenId>{5} : std::vector<TokenId>{};
}

std::unique_ptr<Tokenizer> Make(const std::string& json) {
  return Tokenizer::FromJson(json).value();
}

VocabularyMap MapOf(bool ends) {
  const auto target = Make(TargetTokens()), draft = Make(DraftTokens(ends));
  ModelConfig config;
  config.vocab_size = DraftVocab(ends);
  config.eos_token_ids = Ends(ends);
  return VocabularyMap::Create(
             VocabularyEntries::FromTokenizer(*target, kTargetVocab, Ends(ends)).value(),
             *VocabularyOf(*draft, config))
      .value();
}

// ---------------------------------------------------------------------------------------------
// By enumeration.

// The distribution from which the drafter samples and which it sends after `context`, in the
// target's ids: its model's, restricted to the shared tokens, rounded and translated by production
// code.
OutputDistribution SentDistribution(const VocabularyMap& map, const outrider::testing::Model& model,
                                    std::span<const TokenId> context) {
  std::vector<TokenId> own;
  for (const TokenId token : context) {
    const std::span<const TokenId> spelled = map.ToOwn(token);
    own.insert(own.end(), spelled.begin(), spelled.end());
  }
  std::vector<float> row;
  for (const double p : model(own)) row.push_back(static_cast<float>(std::log(p)));
  const int vocab = static_cast<int>(row.size());
  SequenceSampling sampling({}, vocab, vocab);
  sampling.Restrict(map.SharedMask(vocab));
  MakeDistribution(sampling.state(), vocab, {}, row);
  DraftChunk chunk{.distributions = {MakeDraftDistribution(row, {})}};
  map.ToVerifier(&chunk);
  OutputDistribution distribution(kTargetVocab, 0.0);
  const DraftDistribution& sent = chunk.distributions[0];
  for (size_t i = 0; i < sent.ids.size(); ++i) {
    distribution[static_cast<size_t>(sent.ids[i])] =
        static_cast<double>(sent.weights[i]) / kDraftWeightTotal;
  }
  return distribution;
}

void ExpectTargetsDistributionOfEveryRule(bool ends) {
  const VocabularyMap map = MapOf(ends);
  ASSERT_EQ(map.ToVerifier(5), ends ? 5 : -1);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const outrider::testing::Model draft = RandomModel(DraftVocab(ends), ~seed, 0);
    const EnumeratedPair pair{
        kTargetVocab, RandomModel(kTargetVocab, seed, 0.2),
        [&](std::span<const TokenId> context) { return SentDistribution(map, draft, context); }};
    for (const RuleTraits& traits : kRuleTraits) {
      if (traits.rule == Rule::kGumbel) continue;  // it has no sampled tokens to enumerate
      EXPECT_LE(RoundError(EmitterOf(traits.rule), pair, Sequences(1, 2)), kTolerance)
          << traits.name;
      if (!traits.takes_many_paths) continue;
      EXPECT_LE(RoundError(EmitterOf(traits.rule), pair, Sequences(2, 1)), kTolerance)
          << traits.name;
    }
  }
}

TEST(TranslatedDistribution, HoldsForEveryRule) {
  ExpectTargetsDistributionOfEveryRule(/*ends=*/false);
}

TEST(TranslatedDistribution, HoldsForPairedEnds) {
  ExpectTargetsDistributionOfEveryRule(/*ends=*/true);
}

// ---------------------------------------------------------------------------------------------
// Through engine, pool and loop.

struct Setting {
  Rule rule;
  int paths;
  float temperature = 1.f;
  StopRule stop = {};
  SamplingParams sampling = {};
  bool ends = false;  // both models have one; texts continue after it
};

constexpr int kTokens = 8;

class TranslatedPair : public ::testing::TestWithParam<Setting> {
 protected:
  TranslatedPair() {
    const auto cost = [this](int rows) { clock_.Advance(std::chrono::microseconds(100 + rows)); };
    target_.set_on_forward(cost);
    draft_.set_on_forward(cost);
  }

  // The texts of seeds 1 to `count`.
  std::vector<std::vector<TokenId>> Generate(int count, int ahead_tokens, bool drafts = true) {
    const Setting& s = GetParam();
    LocalPairOptions options{.drafts_cross_verdicts = drafts_cross_verdicts_,
                             .draft_tokenizer = draft_tokenizer_.get()};
    options.drafter.ahead_tokens = ahead_tokens;
    options.engine.admission.max_running = 4;
    LocalPair pair(options, &target_, &draft_, target_tokenizer_.get(), &clock_);
    GenerationRequest request{.prompt = {1, 2, 5},
                              .sampling = s.sampling,
                              .max_tokens = kTokens,
                              .ignore_eos = true,
                              .speculation = {.enabled = drafts,
                                              .rule = s.rule,
                                              .draft_length = 3,
                                              .paths = s.paths,
                                              .stop = s.stop}};
    request.sampling.temperature = s.temperature;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int seed = 1; seed <= count; ++seed) {
      sinks.push_back(std::make_shared<RecordingSink>(/*may_fail=*/false));
      request.seed = static_cast<uint64_t>(seed);
      EXPECT_TRUE(pair.engine().Submit(static_cast<uint64_t>(seed), request, sinks.back()).ok());
      while (seed % 100 == 0 && !pair.engine().idle()) pair.Run();
    }
    while (!pair.engine().idle()) pair.Run();
    std::vector<std::vector<TokenId>> texts;
    accepted_ = 0;
    for (const auto& sink : sinks) {
      texts.push_back(sink->tokens);
      accepted_ += sink->summary.accepted_tokens;
    }
    return texts;
  }

  FakeClock clock_;
  FakeModel target_{{.seed = 5,
                     .vocab_size = kTargetVocab,
                     .order = 2,
                     .sharpness = 2.f,
                     .eos_token_ids = Ends(GetParam().ends)}};
  FakeModel draft_{{.seed = 6,
                    .vocab_size = DraftVocab(GetParam().ends),
                    .order = 2,
                    .sharpness = 2.f,
                    .eos_token_ids = Ends(GetParam().ends)}};
  const std::unique_ptr<Tokenizer> target_tokenizer_ = Make(TargetTokens());
  const std::unique_ptr<Tokenizer> draft_tokenizer_ = Make(DraftTokens(GetParam().ends));
  bool drafts_cross_verdicts_ = false;
  int accepted_ = 0;  // in the last Generate
};

TEST_P(TranslatedPair, HasTheTargetsDistribution) {
  if (GetParam().temperature == 0) GTEST_SKIP() << "one text";
  constexpr size_t kCounted = 4;
  const int count = 12000;
  std::vector<int64_t> counts(kTargetVocab * kTargetVocab * kTargetVocab * kTargetVocab);
  for (const std::vector<TokenId>& text : Generate(count, /*ahead_tokens=*/16)) {
    ASSERT_EQ(text.size(), static_cast<size_t>(kTokens));
    ++counts[CellOf(std::span(text).first(kCounted), kTargetVocab)];
  }
  EXPECT_GT(accepted_, count / 2);
  const auto target = [this](std::span<const TokenId> output) {
    std::vector<TokenId> path = {1, 2, 5};
    path.insert(path.end(), output.begin(), output.end());
    std::vector<float> row = target_.Logits(path);
    SequenceSampling sampling(GetParam().sampling, kTargetVocab, kTargetVocab);
    sampling.ObservePrompt(std::vector<TokenId>{1, 2, 5});
    for (const TokenId token : output) sampling.ObserveOutput(token);
    MakeDistribution(sampling.state(), kTargetVocab, {}, row);
    return OutputDistribution(row.begin(), row.end());
  };
  const OutputDistribution distribution =
      TargetDistribution({kTargetVocab, target, nullptr}, kCounted);
  EXPECT_GT(ChiSquarePValue(counts, distribution), kFalseAlarm);
}

// Drafts that are sent before their verdict name the end of the round in the target's ids.
TEST_P(TranslatedPair, LookaheadKeepsTextOfSeed) {
  const auto texts = Generate(300, 0);
  EXPECT_EQ(Generate(300, 64), texts);
  drafts_cross_verdicts_ = true;
  EXPECT_EQ(Generate(300, 64), texts);
}

TEST_P(TranslatedPair, DraftsKeepSeedStableTexts) {
  if (GetParam().temperature != 0 && GetParam().rule != Rule::kGumbel) {
    GTEST_SKIP() << "drafts take part in the text";
  }
  const auto plain = Generate(300, 0, /*drafts=*/false);
  EXPECT_EQ(Generate(300, 0), plain);
  EXPECT_GT(accepted_, 200);
}

constexpr StopRule kEntropy{.kind = StopRule::Kind::kEntropy, .threshold = 1.1f};
constexpr StopRule kConfidence{.kind = StopRule::Kind::kConfidence, .threshold = 0.4f};

INSTANTIATE_TEST_SUITE_P(
    Rules, TranslatedPair,
    ::testing::Values(Setting{Rule::kToken, 1}, Setting{Rule::kBlock, 1}, Setting{Rule::kSpecTr, 2},
                      Setting{Rule::kMultiRound, 3}, Setting{Rule::kMultiPathBlock, 3},
                      Setting{Rule::kGumbel, 1}, Setting{Rule::kGumbel, 2, 1.f, kConfidence},
                      Setting{Rule::kBlock, 1, 0.f}, Setting{Rule::kToken, 1, 1.f, kEntropy},
                      Setting{Rule::kBlock,
                              1,
                              1.f,
                              {},
                              {.top_k = 4,
                               .repetition_penalty = 1.3f,
                               .presence_penalty = 0.4f,
                               .logit_bias = {{0, 0.7f}, {1, 0.5f}}}},
                      Setting{.rule = Rule::kBlock, .paths = 1, .ends = true},
                      Setting{.rule = Rule::kGumbel, .paths = 2, .ends = true}),
    [](const auto& test) {
      std::string name(RuleName(test.param.rule));
      std::erase(name, '-');
      return name + std::to_string(test.index);
    });

}  // namespace
}  // namespace outrider::testing
