#include "common/rpc/wire.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(Wire, SamplingParamsSurviveTheWayThereAndBack) {
  const SamplingParams params{.temperature = 0.f,
                              .top_k = 40,
                              .top_p = 0.9f,
                              .min_p = 0.05f,
                              .repetition_penalty = 1.5f,
                              .presence_penalty = -0.25f,
                              .frequency_penalty = 0.75f,
                              .logit_bias = {{7, -3.f}}};
  v1::SamplingParams wire;
  ToWire(params, &wire);
  const SamplingParams back = FromWire(wire);
  EXPECT_EQ(back.temperature, 0.f);
  EXPECT_EQ(back.top_k, 40);
  EXPECT_EQ(back.top_p, 0.9f);
  EXPECT_EQ(back.min_p, 0.05f);
  EXPECT_EQ(back.repetition_penalty, 1.5f);
  EXPECT_EQ(back.presence_penalty, -0.25f);
  EXPECT_EQ(back.frequency_penalty, 0.75f);
  EXPECT_THAT(back.logit_bias, ElementsAre(Pair(7, -3.f)));
}

TEST(Wire, UnsetSamplingParamsSwitchTheTransformsOff) {
  const SamplingParams params = FromWire(v1::SamplingParams());
  EXPECT_EQ(params.temperature, 1.f);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.top_p, 1.f);
  EXPECT_EQ(params.repetition_penalty, 1.f);
  EXPECT_FALSE(params.has_penalties());
}

TEST(Wire, HugeCountsDoNotBecomeNegative) {
  v1::SamplingParams wire;
  wire.set_top_k(std::numeric_limits<uint32_t>::max());
  (*wire.mutable_logit_bias())[std::numeric_limits<uint32_t>::max()] = 1.f;
  const SamplingParams params = FromWire(wire);
  EXPECT_GT(params.top_k, 0);
  ASSERT_EQ(params.logit_bias.size(), 1u);
  EXPECT_GT(params.logit_bias[0].first, 0);
}

TEST(Wire, PlansSurviveTheWayThereAndBack) {
  for (const DraftShape& shape :
       {DraftShape(), Sequences(1, 5), Sequences(8, 3), DraftShape{3, {4, 2}}}) {
    v1::Plan wire;
    ToWire(shape, 7, {}, &wire);
    EXPECT_EQ(wire.round(), 7u);
    EXPECT_EQ(FromWire(wire), shape);
    EXPECT_FALSE(FromWire(wire.stop()).value().has_value());
  }
  v1::Plan huge;
  huge.set_length(0xffffffffu);
  huge.add_branching(0x80000000u);
  EXPECT_GT(FromWire(huge).length, 0);
  EXPECT_GT(FromWire(huge).branching.at(0), 0);
}

TEST(Wire, StopRulesSurviveTheWayThereAndBack) {
  for (const StopRule::Kind kind : kAllStopKinds) {
    v1::StopRule wire;
    const float threshold = kind == StopRule::Kind::kLength ? 0.f : 0.25f;  // it takes none
    ToWire(StopRule{.kind = kind, .threshold = threshold}, &wire);
    const Result<std::optional<StopRule>> back = FromWire(wire);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, (StopRule{.kind = kind, .threshold = threshold}));
    for (const float bad : {-1.f, 33.f, std::nanf("")}) {
      wire.set_threshold(bad);
      EXPECT_EQ(FromWire(wire).status().code(), Code::kInvalidArgument);
    }
  }
  v1::StopRule wire;
  EXPECT_FALSE(FromWire(wire)->has_value());
  for (const float ignored : {0.5f, std::nanf("")}) {  // of no kind
    wire.set_threshold(ignored);
    EXPECT_EQ(FromWire(wire).status().code(), Code::kInvalidArgument) << ignored;
  }
  wire.set_kind(static_cast<v1::StopRule::Kind>(77));
  EXPECT_EQ(FromWire(wire).status().code(), Code::kInvalidArgument);
  v1::Plan plan;
  ToWire(Sequences(1, 3), 7, {.kind = StopRule::Kind::kEntropy, .threshold = 3.f}, &plan);
  EXPECT_EQ(plan.stop().kind(), v1::StopRule::KIND_ENTROPY);
  EXPECT_EQ(plan.stop().threshold(), 3.f);
}

TEST(Wire, DraftKindsSurviveTheWayThereAndBack) {
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace}) {
    const Result<DraftKind> back = FromWire(ToWire(kind));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, kind);
  }
  EXPECT_EQ(FromWire(static_cast<v1::DraftKind>(3)).status().code(), Code::kInvalidArgument);
}

TEST(Wire, DraftsSurviveTheWayThereAndBack) {
  DraftChunk chunk;
  chunk.tokens = {3, 9, 3, 4};
  chunk.parents = {0, 0, 0, 2};
  chunk.laws = {{.ids = {9, 3}, .weights = {65000, 536}}, {.ids = {4}, .weights = {65536}}};
  chunk.more = true;
  v1::Draft wire;
  ToWire(chunk, &wire);
  const auto back = FromWire(wire);
  ASSERT_TRUE(back.ok());
  EXPECT_THAT(back->tokens, ElementsAre(3, 9, 3, 4));
  EXPECT_THAT(back->parents, ElementsAre(0, 0, 0, 2));
  ASSERT_EQ(back->laws.size(), 2u);
  EXPECT_THAT(wire.rows(0).id_gaps(), ElementsAre(3u, 6u))
      << "rising, however the drafter has them";
  EXPECT_THAT(back->laws[0].ids, ElementsAre(3, 9));
  EXPECT_THAT(back->laws[0].weights, ElementsAre(536u, 65000u));
  EXPECT_THAT(back->laws[1].ids, ElementsAre(4));
  EXPECT_TRUE(back->more);
}

TEST(Wire, ASingleSequenceWithoutRowsIsItsTokens) {
  v1::Draft wire;
  wire.add_token_ids(5);
  const auto chunk = FromWire(wire);
  ASSERT_TRUE(chunk.ok());
  EXPECT_THAT(chunk->tokens, ElementsAre(5));
  EXPECT_THAT(chunk->parents, IsEmpty());
  EXPECT_THAT(chunk->laws, IsEmpty());
  EXPECT_FALSE(chunk->more);
}

TEST(Wire, MalformedDraftsAreRefused) {
  v1::Draft arrays;  // two ids, one weight
  arrays.add_token_ids(1);
  arrays.add_rows()->add_id_gaps(1);
  arrays.mutable_rows(0)->add_id_gaps(2);
  arrays.mutable_rows(0)->add_weights(65536);
  v1::Draft token;  // an id that would turn negative
  token.add_token_ids(0x80000000u);
  v1::Draft parent;
  parent.add_token_ids(1);
  parent.add_parents(0xffffffffu);
  v1::Draft entry;
  entry.add_token_ids(1);
  entry.add_rows()->add_id_gaps(0xffffffffu);
  entry.mutable_rows(0)->add_weights(65536);
  v1::Draft sum;  // each gap fits, their sum does not
  sum.add_token_ids(1);
  sum.add_rows();
  for (int i = 0; i < 2; ++i) {
    sum.mutable_rows(0)->add_id_gaps(0x7fffffffu);
    sum.mutable_rows(0)->add_weights(32768);
  }
  v1::Draft large;
  for (int i = 0; i <= kMaxChunkDraws; ++i) large.add_token_ids(1);
  for (const v1::Draft& wire : {arrays, token, parent, entry, sum, large}) {
    EXPECT_EQ(FromWire(wire).status().code(), Code::kInvalidArgument) << wire.ShortDebugString();
  }
  large.mutable_token_ids()->RemoveLast();
  EXPECT_TRUE(FromWire(large).ok());
}

// 3 was greedy-block's.
TEST(RuleWire, RefusesNumbersOfNoRule) {
  for (const int number : {3, 99}) {
    const auto rule = FromWire(static_cast<v1::SpeculationOptions::Rule>(number));
    EXPECT_EQ(rule.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(rule.status().message(), ::testing::HasSubstr(std::to_string(number)));
  }
  for (const Rule rule : kAllRules) EXPECT_EQ(FromWire(ToWire(rule)).value(), rule);
}

}  // namespace
}  // namespace outrider
