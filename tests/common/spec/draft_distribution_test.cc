#include "common/spec/draft_distribution.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <random>
#include <set>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

uint32_t Total(const DraftDistribution& distribution) {
  return std::accumulate(distribution.weights.begin(), distribution.weights.end(), 0u);
}

TEST(MakeDraftDistribution, RoundsByLargestRemainders) {
  // Thirds: three fractions of 1/3 compete for the one unit that is left over; the lowest id gets
  // it.
  const std::vector<float> thirds(3, 1.f / 3);
  const DraftDistribution distribution =
      MakeDraftDistribution(thirds, {.mass = 1.f, .max_entries = 8});
  EXPECT_THAT(distribution.ids, ElementsAre(0, 1, 2));
  EXPECT_THAT(distribution.weights, ElementsAre(21846u, 21845u, 21845u));
}

TEST(MakeDraftDistribution, StopsOnceTheMassIsHeld) {
  const std::vector<float> probs = {0.125f, 0.5f, 0.25f, 0.125f};
  const DraftDistribution distribution =
      MakeDraftDistribution(probs, {.mass = 0.75f, .max_entries = 8});
  EXPECT_THAT(distribution.ids, ElementsAre(1, 2));
  EXPECT_EQ(Total(distribution), kDraftWeightTotal);
}

TEST(MakeDraftDistribution, KeepsLowestIdsAtItsLimit) {
  const std::vector<float> probs(1000, 0.001f);
  const DraftDistribution distribution =
      MakeDraftDistribution(probs, {.mass = 0.9995f, .max_entries = 4});
  EXPECT_THAT(distribution.ids, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(distribution.weights, ElementsAre(16384u, 16384u, 16384u, 16384u));
}

TEST(MakeDraftDistribution, DropsWhatRoundsToNothing) {
  const std::vector<float> probs = {1.f - 1e-6f, 1e-6f, 0.f};
  const DraftDistribution distribution =
      MakeDraftDistribution(probs, {.mass = 1.f, .max_entries = 8});
  EXPECT_THAT(distribution.ids, ElementsAre(0));
  EXPECT_THAT(distribution.weights, ElementsAre(kDraftWeightTotal));
}

TEST(MakeDraftDistribution, ApproximatesRandomRows) {
  std::mt19937 rng(11);
  std::normal_distribution<float> normal(0.f, 3.f);
  for (int trial = 0; trial < 200; ++trial) {
    const int vocab = 1 + trial * 7;
    std::vector<float> probs(static_cast<size_t>(vocab));
    float sum = 0;
    for (float& p : probs) sum += p = std::exp(normal(rng));
    for (float& p : probs) p /= sum;
    const DraftDistribution distribution = MakeDraftDistribution(probs, {});
    ASSERT_FALSE(distribution.ids.empty());
    EXPECT_TRUE(Validate(distribution, distribution.ids, vocab).ok());
    EXPECT_TRUE(std::is_sorted(distribution.weights.rbegin(), distribution.weights.rend()));
    double held = 0;
    for (const TokenId id : distribution.ids)
      held += static_cast<double>(probs[static_cast<size_t>(id)]);
    for (const TokenId id : distribution.ids) {
      // Entries that were rounded to zero count in `held` only in MakeDraftDistribution: hence 2
      // units.
      EXPECT_NEAR(Probability(distribution, id),
                  static_cast<double>(probs[static_cast<size_t>(id)]) / held,
                  2.0 / kDraftWeightTotal);
    }
  }
}

// weight_rounding.h as a device uses it: on arrays of its own.
TEST(DistributionRounding, KeepsEntriesUpToMassLimit) {
  const std::vector<float> values = {0.5f, 0.25f, 0.125f, 0.125f};
  const auto kept = [&](int n, float limit) {
    double mass = -1;
    const int count =
        KeptEntries([&](int i) { return values[static_cast<size_t>(i)]; }, n, limit, &mass);
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += static_cast<double>(values[static_cast<size_t>(i)]);
    EXPECT_EQ(mass, sum);
    return count;
  };
  EXPECT_EQ(kept(4, 1.f), 4);
  EXPECT_EQ(kept(4, 0.875f), 3);
  EXPECT_EQ(kept(4, 0.8750001f), 4);
  EXPECT_EQ(kept(4, 1e-9f), 1);
  EXPECT_EQ(kept(2, 1.f), 2);
  EXPECT_EQ(kept(0, 1.f), 0);
}

TEST(DistributionRounding, SharesAreRoundedDown) {
  const WeightShare third = ShareOf(1.f, 3.);
  EXPECT_EQ(third.weight, 21845u);
  EXPECT_NEAR(third.fraction, 1. / 3, 1e-10);
  const WeightShare all = ShareOf(0.25f, 0.25);
  EXPECT_EQ(all.weight, kDraftWeightTotal);
  EXPECT_EQ(all.fraction, 0.);
}

TEST(DistributionRounding, NeverDrawsZeroWeightEntry) {
  const std::vector<uint32_t> weights = {65533, 2, 1, 0, 0};
  const auto sample = [&](double coin) {
    return EntryAt([&](int i) { return weights[static_cast<size_t>(i)]; }, 5, coin);
  };
  EXPECT_EQ(sample(0.), 0);
  EXPECT_EQ(sample(65532.999 / 65536), 0);
  EXPECT_EQ(sample(65533. / 65536), 1);
  EXPECT_EQ(sample(65534.999 / 65536), 1);
  EXPECT_EQ(sample(65535. / 65536), 2);
  EXPECT_EQ(sample(1 - 0x1p-53), 2);
}

TEST(SampleDraftDistribution, GivesTokensTheirShares) {
  const DraftDistribution distribution{{7, 2, 9}, {32768, 32767, 1}};
  EXPECT_EQ(SampleDraftDistribution(distribution, 0.0), 7);
  EXPECT_EQ(SampleDraftDistribution(distribution, 32767.99 / 65536), 7);
  EXPECT_EQ(SampleDraftDistribution(distribution, 0.5), 2);
  EXPECT_EQ(SampleDraftDistribution(distribution, 65534.99 / 65536), 2);
  EXPECT_EQ(SampleDraftDistribution(distribution, 65535.0 / 65536), 9);
  EXPECT_EQ(SampleDraftDistribution(distribution, std::nextafter(1.0, 0.0)), 9);
}

// What is sampled is what is sent: over all 65536 cells of the interval each token occurs exactly
// as often as its weight, also where rounding and truncation changed the distribution.
TEST(SampleDraftDistribution, SamplesExactlyWhatIsSent) {
  const std::vector<float> probs = {0.1f, 0.31f, 1e-5f, 0.2f, 0.07f, 0.32f};
  const DraftDistribution distribution =
      MakeDraftDistribution(probs, {.mass = 0.9f, .max_entries = 8});
  std::vector<uint32_t> drawn(probs.size());
  for (uint32_t cell = 0; cell < kDraftWeightTotal; ++cell) {
    ++drawn[static_cast<size_t>(
        SampleDraftDistribution(distribution, (cell + 0.5) / kDraftWeightTotal))];
  }
  for (TokenId id = 0; id < 6; ++id) {
    EXPECT_EQ(drawn[static_cast<size_t>(id)], Probability(distribution, id) * kDraftWeightTotal)
        << id;
  }
}

TEST(DraftDistribution, GivesProbabilitiesAndZeroOutside) {
  const DraftDistribution distribution{{7, 2}, {49152, 16384}};
  EXPECT_EQ(Probability(distribution, 7), 0.75);
  EXPECT_EQ(Probability(distribution, 2), 0.25);
  EXPECT_EQ(Probability(distribution, 0), 0.0);
}

TEST(ValidateDraftDistribution, NamesWhatIsWrong) {
  const auto message = [](DraftDistribution distribution, std::vector<TokenId> tokens) {
    const Status status = Validate(distribution, tokens, 10);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  EXPECT_TRUE(Validate({{1, 2}, {1, 65535}}, std::vector<TokenId>{2, 1, 2}, 10).ok());
  EXPECT_TRUE(Validate({{9, 2}, {1, 65535}}, {}, 10).ok());
  EXPECT_THAT(message({}, {}), HasSubstr("no entries"));
  EXPECT_THAT(message({{1, 2}, {65536}}, {1}), HasSubstr("2 ids, 1 weights"));
  EXPECT_THAT(message({{1, 10}, {1, 65535}}, {1}), HasSubstr("id 10"));
  EXPECT_THAT(message({{1, -1}, {1, 65535}}, {1}), HasSubstr("id -1"));
  EXPECT_THAT(message({{1, 2}, {0, 65536}}, {1}), HasSubstr("weight 0"));
  EXPECT_THAT(message({{1, 2}, {1, 65536}}, {1}), HasSubstr("65537"));
  // 2^32 + 65536 wraps to the right sum in 32 bits.
  EXPECT_THAT(message({{1, 2, 3}, {0x80000000u, 0x80000000u, 65536}}, {1}),
              HasSubstr("4295032832"));
  EXPECT_THAT(message({{1, 1}, {1, 65535}}, {1}), HasSubstr("twice"));
  EXPECT_THAT(message({{1, 2}, {1, 65535}}, {1, 3}), HasSubstr("token 3 is not among"));
}

}  // namespace
}  // namespace outrider
