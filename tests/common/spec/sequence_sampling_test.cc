#include "common/spec/sequence_sampling.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "tests/support/extreme_floats.h"
#include "tests/support/sequence_rows.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using testing::kInf;
using testing::kNan;
using ::testing::Pointwise;

std::vector<float> Distribution(const SamplingParams& params, std::vector<float> row,
                                std::vector<TokenId> pending = {}) {
  SequenceSampling sampling(params, static_cast<int>(row.size()), static_cast<int>(row.size()));
  MakeDistribution(sampling, row, pending);
  return row;
}

std::vector<float> Logs(std::vector<float> probs) {
  for (float& p : probs) p = std::log(p);
  return probs;
}

void ExpectRow(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_THAT(got, Pointwise(FloatNear(1e-6f), want));
}

// The transforms according to their definitions, with a full sort and in double.
std::vector<double> Reference(const SamplingParams& params, std::vector<float> logits) {
  const size_t n = logits.size();
  std::vector<double> p(n);
  const double max = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < n; ++i) p[i] = std::exp((logits[i] - max) / params.temperature);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  size_t kept = n;
  if (params.top_k > 0) kept = std::min(kept, static_cast<size_t>(params.top_k));
  const auto mass = [&](size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += p[order[i]];
    return sum;
  };
  if (params.top_p < 1.f) {
    const double goal = static_cast<double>(params.top_p) * mass(kept);
    size_t count = 1;
    while (count < kept && mass(count) < goal) ++count;
    kept = count;
  }
  while (kept > 1 && p[order[kept - 1]] < params.min_p * p[order[0]]) --kept;
  const double total = mass(kept);
  std::vector<double> out(n, 0.0);
  for (size_t i = 0; i < kept; ++i) out[order[i]] = p[order[i]] / total;
  return out;
}

TEST(SequenceSampling, AgreesWithDefinitionOnRandomRows) {
  std::mt19937 rng(17);
  std::normal_distribution<float> normal(0.f, 2.f);
  std::uniform_real_distribution<float> uniform(0.f, 1.f);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<float> logits(static_cast<size_t>(2 + trial));
    // A quarter of the trials has coarse logits, hence ties.
    for (float& x : logits) x = trial % 4 == 0 ? std::round(normal(rng)) : normal(rng);
    SamplingParams params{.temperature = 0.3f + 2 * uniform(rng)};
    if (trial % 2 == 0) params.top_k = 1 + static_cast<int>(uniform(rng) * 40);
    if (trial % 3 == 0) params.top_p = 0.01f + 0.98f * uniform(rng);
    if (trial % 5 == 0) params.min_p = 0.3f * uniform(rng);
    const std::vector<double> want = Reference(params, logits);
    const std::vector<float> got = Distribution(params, logits);
    double sum = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 2e-6) << "trial " << trial << " token " << i;
      sum += static_cast<double>(got[i]);
    }
    EXPECT_NEAR(sum, 1.0, 1e-6);
  }
}

TEST(SequenceSampling, AppliesTemperature) {
  ExpectRow(Distribution({.temperature = 0.5f}, Logs({0.6f, 0.3f, 0.1f})),
            {0.36f / 0.46f, 0.09f / 0.46f, 0.01f / 0.46f});
}

TEST(SequenceSampling, TopKKeepsLowerTiedId) {
  ExpectRow(Distribution({.top_k = 2}, Logs({0.2f, 0.4f, 0.2f, 0.2f})), {1.f / 3, 2.f / 3, 0, 0});
}

TEST(SequenceSampling, TopPKeepsCrossingToken) {
  const std::vector<float> logits = Logs({0.05f, 0.5f, 0.3f, 0.15f});
  ExpectRow(Distribution({.top_p = 0.6f}, logits), {0, 0.625f, 0.375f, 0});
  ExpectRow(Distribution({.top_p = 0.4f}, logits), {0, 1, 0, 0});
  ExpectRow(Distribution({.top_p = 1e-6f}, logits), {0, 1, 0, 0});
}

TEST(SequenceSampling, TopPFollowsTopK) {
  // After top-k 2, top-p 0.55 needs one token (4/7); for the whole row it would need two.
  ExpectRow(Distribution({.top_k = 2, .top_p = 0.55f}, Logs({0.4f, 0.3f, 0.2f, 0.1f})),
            {1, 0, 0, 0});
}

TEST(SequenceSampling, MinPIsRelativeToMaximum) {
  ExpectRow(Distribution({.min_p = 0.5f}, Logs({0.4f, 0.3f, 0.19f, 0.11f})),
            {4.f / 7, 3.f / 7, 0, 0});
  // Relative to the probability after temperature: squared, 0.3 falls below 0.6 * 0.4.
  ExpectRow(Distribution({.temperature = 0.5f, .min_p = 0.6f}, Logs({0.4f, 0.3f, 0.19f, 0.11f})),
            {1, 0, 0, 0});
}

TEST(SequenceSampling, RepetitionPenaltySeesPromptAndOutput) {
  SequenceSampling sampling({.repetition_penalty = 2.f}, 4, 4);
  sampling.ObservePrompt(std::vector<TokenId>{0, 0});
  sampling.ObserveOutput(1);
  std::vector<float> row = {2.f, -1.f, 2.f, -1.f};
  const std::vector<float> want = Distribution({}, {1.f, -2.f, 2.f, -1.f});
  MakeDistribution(sampling, row, {});
  ExpectRow(row, want);
}

TEST(SequenceSampling, PresenceAndFrequencySeeOutputOnly) {
  SequenceSampling sampling({.presence_penalty = 0.5f, .frequency_penalty = 0.25f}, 4, 4);
  sampling.ObservePrompt(std::vector<TokenId>{0});
  for (const TokenId t : {1, 1, 2}) sampling.ObserveOutput(t);
  std::vector<float> row = {0.f, 0.f, 0.f, 0.f};
  MakeDistribution(sampling, row, {});
  ExpectRow(row, Distribution({}, {0.f, -1.f, -0.75f, 0.f}));
}

TEST(SequenceSampling, PenaltiesSeeOnlyTheRowsPath) {
  const SamplingParams params{
      .repetition_penalty = 1.5f, .presence_penalty = 0.5f, .frequency_penalty = 0.25f};
  SequenceSampling sampling(params, 4, 4);
  sampling.ObserveOutput(1);
  const std::vector<float> logits = {1.f, 1.f, -1.f, 0.5f};
  for (const std::vector<TokenId>& pending :
       {std::vector<TokenId>{2, 1, 2}, {}, {3}, {0, 0, 0, 0}}) {
    SequenceSampling fresh(params, 4, 4);
    fresh.ObserveOutput(1);
    for (const TokenId t : pending) fresh.ObserveOutput(t);
    std::vector<float> want = logits, got = logits;
    MakeDistribution(fresh, want, {});
    MakeDistribution(sampling, got, pending);
    EXPECT_EQ(got, want);
    want = got = logits;
    EXPECT_EQ(MostLikely(sampling, got, pending), MostLikely(fresh, want, {}));
  }
}

TEST(SequenceSampling, NamesTheTokensThatPenaltiesRead) {
  SequenceSampling sampling({.presence_penalty = 0.5f}, 10, 9);
  sampling.ObservePrompt(std::vector<TokenId>{7, 2, 7, -1, 10});
  sampling.ObserveOutput(5);
  sampling.ObservePrompt(std::vector<TokenId>{3});
  sampling.ObserveOutput(2);
  sampling.ObserveOutput(5);
  std::vector<float> row(10);
  MakeDistribution(sampling, row,
                   std::vector<TokenId>{1, 5});  // a draft's tokens are in no text yet
  std::vector<std::pair<TokenId, int>> seen;
  for (const SeenToken& token : sampling.state().seen) {
    seen.emplace_back(token.token, token.in_output);
  }
  EXPECT_THAT(seen,
              ElementsAre(std::pair(2, 1), std::pair(3, 0), std::pair(5, 2), std::pair(7, 0)));
  EXPECT_TRUE(SequenceSampling({.top_k = 3}, 10, 9).state().seen.empty());
}

TEST(SequenceSampling, AddsBiasBeforeTemperature) {
  ExpectRow(
      Distribution({.temperature = 2.f, .logit_bias = {{1, 2.f}, {2, -1.f}}}, {0.f, 0.f, 0.f}),
      Distribution({}, {0.f, 1.f, -0.5f}));
}

TEST(SequenceSampling, GreedyPicksLowestIdOnTie) {
  EXPECT_THAT(Distribution({.temperature = 0.f}, {1.f, 3.f, 3.f, 2.f}), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(Distribution({.temperature = 0.f, .logit_bias = {{3, 5.f}}}, {1.f, 3.f, 3.f, 2.f}),
              ElementsAre(0, 0, 0, 1));
}

TEST(SequenceSampling, ArgmaxSeesBias) {
  SequenceSampling sampling({.logit_bias = {{0, 5.f}}}, 3, 3);
  std::vector<float> row = {0.f, 1.f, 2.f};
  EXPECT_EQ(MostLikely(sampling, row, {}), 0);
}

TEST(SequenceSampling, NeverSamplesThePadding) {
  for (const float temperature : {0.f, 1.f}) {
    SequenceSampling sampling({.temperature = temperature, .logit_bias = {{3, 100.f}}}, 4, 2);
    std::vector<float> row = {0.f, 0.f, 9.f, 9.f};
    std::vector<float> logits = row;
    EXPECT_EQ(MostLikely(sampling, logits, {}), 0);
    MakeDistribution(sampling, row, {});
    EXPECT_EQ(row[2] + row[3], 0.f);
    EXPECT_FLOAT_EQ(row[0] + row[1], 1.f);
  }
}

TEST(SequenceSampling, SamplesAllowedTokensAlone) {
  ExpectRow(Distribution({.allowed_tokens = {0, 2}}, Logs({0.25f, 0.5f, 0.25f})), {0.5f, 0, 0.5f});
  ExpectRow(Distribution({.top_k = 1, .allowed_tokens = {0, 2}}, Logs({0.2f, 0.5f, 0.3f})),
            {0, 0, 1});
  ExpectRow(
      Distribution({.logit_bias = {{1, 100.f}}, .bad_words = {{1}}}, Logs({0.25f, 0.5f, 0.25f})),
      {0.5f, 0, 0.5f});
  SequenceSampling greedy({.temperature = 0.f, .allowed_tokens = {0, 1}}, 3, 3);
  std::vector<float> row = {0, 1, 2};
  EXPECT_EQ(MostLikely(greedy, row, {}), 1);
}

// A bad word's beginning may be in the output, among the draft tokens, or in both.
TEST(SequenceSampling, NeverCompletesABadWord) {
  SequenceSampling sampling({.bad_words = {{1, 2, 3}, {0, 0}}}, 4, 4);
  const auto rules_out = [&](const std::vector<TokenId>& path) {
    std::vector<float> row(4, 0.f);
    MakeDistribution(sampling, row, path);
    std::vector<TokenId> out;
    for (TokenId id = 0; id < 4; ++id) {
      if (row[static_cast<size_t>(id)] == 0.f) out.push_back(id);
    }
    return out;
  };
  sampling.ObservePrompt(std::vector<TokenId>{1, 2});
  EXPECT_THAT(rules_out({}), ElementsAre()) << "the prompt does not count";
  EXPECT_THAT(rules_out({1, 2}), ElementsAre(3));
  EXPECT_THAT(rules_out({2}), ElementsAre());
  sampling.ObserveOutput(1);
  EXPECT_THAT(rules_out({}), ElementsAre());
  EXPECT_THAT(rules_out({2}), ElementsAre(3));
  EXPECT_THAT(rules_out({2, 0}), ElementsAre(0));
  sampling.ObserveOutput(2);
  EXPECT_THAT(rules_out({}), ElementsAre(3));
  EXPECT_THAT(rules_out({0}), ElementsAre(0));
  EXPECT_FALSE(sampling.Permits(3));
  EXPECT_TRUE(sampling.Permits(0));
  sampling.ObserveOutput(0);
  EXPECT_THAT(rules_out({}), ElementsAre(0));
}

TEST(SequenceSampling, PermitsWhatNoMaskRulesOut) {
  SequenceSampling sampling({.allowed_tokens = {0, 2}}, 3, 3);
  sampling.SuppressBefore(1, {2});
  EXPECT_TRUE(sampling.Permits(0));
  EXPECT_FALSE(sampling.Permits(1));
  EXPECT_FALSE(sampling.Permits(2));
  sampling.ObserveOutput(0);
  EXPECT_TRUE(sampling.Permits(2));
}

TEST(SequenceSampling, BrokenRowStillGivesDistribution) {
  const SamplingParams every{.top_k = 2, .top_p = 0.9f, .min_p = 0.1f, .presence_penalty = 1.f};
  for (const float bad : {kNan, -kInf, kInf}) {
    for (const SamplingParams& params : {SamplingParams{}, every, {.temperature = 0.f}}) {
      const std::vector<float> row = Distribution(params, std::vector<float>(5, bad), {2});
      float sum = 0;
      for (const float p : row) {
        EXPECT_GE(p, 0.f);
        sum += p;
      }
      EXPECT_FLOAT_EQ(sum, 1.f);
    }
  }
  EXPECT_THAT(Distribution({}, {kNan, kNan, kNan}), ElementsAre(1.f, 0.f, 0.f));
  EXPECT_THAT(Distribution({.temperature = 0.f}, {kNan, kNan, 0.f}), ElementsAre(0.f, 0.f, 1.f));
}

TEST(SampleRow, InvertsTheCumulativeAndSkipsZeros) {
  const std::vector<float> probs = {0.f, 0.25f, 0.f, 0.75f, 0.f};
  EXPECT_EQ(SampleRow(probs, 0.0), 1);
  EXPECT_EQ(SampleRow(probs, 0.2499), 1);
  EXPECT_EQ(SampleRow(probs, 0.25), 3);
  EXPECT_EQ(SampleRow(probs, std::nextafter(1.0, 0.0)), 3);
}

}  // namespace
}  // namespace outrider
