// The output distribution through engine, pool and drafting loop. Lookahead drafting does not
// change it: every seed gives the same text with and without it, and so the same distribution over
// seeds. It is the target's own, with or without lookahead, whatever plans a learning policy
// chooses.
#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/local_pair.h"
#include "tests/support/recording_sink.h"
#include "tests/support/statistics.h"
#include "tests/support/tiny_tokenizer.h"

namespace outrider::testing {
namespace {

constexpr int kVocab = 4;
constexpr int kTokens = 8;

struct Setting {
  Rule rule;
  int paths;
  float temperature = 1.f;
  StopRule stop = {};
};

class PairDistribution : public ::testing::Test {
 protected:
  PairDistribution() {
    const auto cost = [this](int rows) { clock_.Advance(std::chrono::microseconds(100 + rows)); };
    target_.set_on_forward(cost);
    draft_.set_on_forward(cost);
  }

  // The texts of `count` requests like this one. Seeds are 1 to `count`: the requests' own if it
  // has one, otherwise chosen by the engine.
  std::vector<std::vector<TokenId>> Generate(int count, const LocalPairOptions& given,
                                             GenerationRequest request) {
    LocalPairOptions options = given;
    options.engine.admission.max_running = 4;
    options.drafter.head = &head_;
    uint64_t drawn = 0;
    options.engine.draw_seed = [&drawn] { return ++drawn; };
    LocalPair pair(options, &target_, &draft_, tokenizer_.get(), &clock_);
    request.prompt = {1, 2};
    request.max_tokens = kTokens;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int seed = 1; seed <= count; ++seed) {
      sinks.push_back(std::make_shared<RecordingSink>(/*may_fail=*/false));
      if (request.seed.has_value()) request.seed = static_cast<uint64_t>(seed);
      const Status submitted =
          pair.engine().Submit(static_cast<uint64_t>(seed), request, sinks.back());
      EXPECT_TRUE(submitted.ok()) << submitted.ToString();
      if (seed % 100 != 0) continue;
      while (!pair.engine().idle()) pair.Run();
    }
    while (!pair.engine().idle()) pair.Run();
    std::vector<std::vector<TokenId>> texts;
    for (const auto& sink : sinks) texts.push_back(sink->tokens);
    return texts;
  }

  // Expects that tokens 3 to 5, which come after the first rounds, have the target distribution.
  void ExpectTheTargetsDistribution(const std::vector<std::vector<TokenId>>& texts) {
    constexpr size_t kCounted = 5;
    std::vector<int64_t> counts(1);
    for (size_t i = 0; i < kCounted; ++i) counts.resize(counts.size() * kVocab);
    for (const std::vector<TokenId>& text : texts) {
      ASSERT_EQ(text.size(), static_cast<size_t>(kTokens));
      size_t cell = 0;
      for (size_t i = 0; i < kCounted; ++i) cell = cell * kVocab + static_cast<size_t>(text[i]);
      ++counts[cell];
    }
    std::vector<double> distribution;
    for (size_t cell = 0; cell < counts.size(); ++cell) {
      std::vector<TokenId> path = {1, 2};
      double p = 1;
      for (size_t i = 0, rest = counts.size(); i < kCounted; ++i) {
        rest /= kVocab;
        const auto token = static_cast<TokenId>(cell / rest % kVocab);
        const std::vector<float> row = target_.Logits(path);
        double sum = 0;
        for (const float x : row) sum += std::exp(static_cast<double>(x));
        p *= std::exp(static_cast<double>(row[static_cast<size_t>(token)])) / sum;
        path.push_back(token);
      }
      distribution.push_back(p);
    }
    EXPECT_GT(ChiSquarePValue(counts, distribution), kFalseAlarm);
  }

  // For the first logits, which are a FakeModel's hidden state.
  const AcceptanceHead head_{.width = 4, .depth = 0, .parameters = {1.f, -1.f, 0.5f, -0.5f, 0.f}};
  FakeClock clock_;
  FakeModel target_{{.seed = 5, .vocab_size = kVocab, .order = 2, .sharpness = 2.f}};
  FakeModel draft_{{.seed = 6, .vocab_size = kVocab, .order = 2, .sharpness = 2.f}};
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::FromJson(TinyTokenizerJson(kVocab)).value();
};

class LookaheadDistribution : public PairDistribution,
                              public ::testing::WithParamInterface<Setting> {
 protected:
  std::vector<std::vector<TokenId>> Generate(int count, int ahead_tokens, bool crossing = false) {
    LocalPairOptions options;
    options.drafter.ahead_tokens = ahead_tokens;
    options.drafts_cross_verdicts = crossing;
    const Setting& s = GetParam();
    return PairDistribution::Generate(count, options,
                                      {.sampling = {.temperature = s.temperature},
                                       .seed = 1,
                                       .speculation = {.rule = s.rule,
                                                       .draft_length = s.stop == StopRule{} ? 2 : 4,
                                                       .paths = s.paths,
                                                       .stop = s.stop}});
  }
};

TEST_P(LookaheadDistribution, EverySeedKeepsItsText) {
  if (GetParam().stop.kind == StopRule::Kind::kHead) {
    GTEST_SKIP() << "the head learns from verdicts, so the order of messages matters";
  }
  const size_t before = draft_.batches().size();
  const auto without = Generate(400, 0);
  const size_t between = draft_.batches().size();
  EXPECT_EQ(Generate(400, 64), without);
  // Lookahead drafting did happen, but not under a stop rule.
  const size_t passes = between - before, passes_ahead = draft_.batches().size() - between;
  if (GetParam().stop == StopRule{}) {
    EXPECT_GT(passes_ahead, passes * 3 / 2);
  } else {
    EXPECT_EQ(passes_ahead, passes);
  }
  EXPECT_EQ(Generate(400, 64, /*crossing=*/true), without);
}

TEST_P(LookaheadDistribution, IsTheTargets) {
  if (GetParam().temperature == 0) GTEST_SKIP() << "one text";
  ExpectTheTargetsDistribution(Generate(8000, 64));
}

constexpr StopRule kConfidence{.kind = StopRule::Kind::kConfidence, .threshold = 0.5f};
constexpr StopRule kEntropy{.kind = StopRule::Kind::kEntropy, .threshold = 1.1f};
// A threshold from the plan, and one of the drafter's own.
constexpr StopRule kHead{.kind = StopRule::Kind::kHead, .threshold = 0.6f};
constexpr StopRule kOwnHead{.kind = StopRule::Kind::kHead};

INSTANTIATE_TEST_SUITE_P(
    Rules, LookaheadDistribution,
    ::testing::Values(Setting{Rule::kToken, 1}, Setting{Rule::kBlock, 1}, Setting{Rule::kSpecTr, 2},
                      Setting{Rule::kMultiPathBlock, 3}, Setting{Rule::kGumbel, 2},
                      Setting{Rule::kBlock, 1, 0.f}, Setting{Rule::kToken, 1, 1.f, kEntropy},
                      Setting{Rule::kBlock, 1, 1.f, kConfidence},
                      Setting{Rule::kSpecTr, 2, 1.f, kConfidence},
                      Setting{Rule::kMultiPathBlock, 3, 1.f, kEntropy},
                      Setting{Rule::kGumbel, 2, 1.f, kConfidence},
                      Setting{Rule::kToken, 1, 1.f, kOwnHead}, Setting{Rule::kBlock, 1, 1.f, kHead},
                      Setting{Rule::kMultiPathBlock, 3, 1.f, kHead}),
    [](const auto& test) {
      std::string name(RuleName(test.param.rule));
      std::erase(name, '-');
      return name + std::to_string(test.param.paths) +
             (test.param.temperature == 0 ? "greedy" : "") +
             (test.param.stop == StopRule{} ? "" : std::string(StopRuleName(test.param.stop.kind)));
    });

class PolicyDistribution : public PairDistribution,
                           public ::testing::WithParamInterface<const char*> {
 protected:
  // With every proposer, and texts of earlier requests.
  LocalPairOptions Options() const {
    LocalPairOptions options;
    options.drafter.ahead_tokens = 16;
    options.engine.planner = PlannerOptions{.control = {.policy = GetParam()}};
    options.engine.planner->local.suffix_min_match = 1;
    options.engine.planner->local.lookup.min_n = 1;
    options.engine.planner->store.max_tokens = 512;
    return options;
  }
};

TEST_P(PolicyDistribution, IsTheTargets) {
  ExpectTheTargetsDistribution(Generate(20000, Options(), {}));
}

// With gumbel and at temperature 0 the plans do not affect the text.
TEST_P(PolicyDistribution, SeedKeepsTextUnderAnyPlans) {
  for (const float temperature : {0.f, 1.f}) {
    GenerationRequest request{.sampling = {.temperature = temperature}, .seed = 1};
    const auto planned = Generate(400, Options(), request);
    request.speculation = {.enabled = false, .rule = Rule::kGumbel};
    EXPECT_EQ(planned, Generate(400, {}, request));
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyDistribution,
                         ::testing::Values("adaptive", "exp3spec", "ucbspec", "fixed:suffix-4",
                                           "fixed:lookup-4", "fixed:draft-4x2"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace outrider::testing
