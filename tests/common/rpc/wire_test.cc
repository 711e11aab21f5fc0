#include "common/rpc/wire.h"

#include <gmock/gmock.h>

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

TEST(Wire, DraftPathsSurviveTheWayThereAndBack) {
  DraftPath path;
  path.tokens = {3, 9};
  path.laws = {{.ids = {3, 4}, .weights = {65000, 536}}, {.ids = {9}, .weights = {65536}}};
  v1::DraftPath wire;
  ToWire(path, &wire);
  const auto back = FromWire(wire);
  ASSERT_TRUE(back.ok());
  EXPECT_THAT(back->tokens, ElementsAre(3, 9));
  ASSERT_EQ(back->laws.size(), 2u);
  EXPECT_THAT(back->laws[0].ids, ElementsAre(3, 4));
  EXPECT_THAT(back->laws[0].weights, ElementsAre(65000u, 536u));
  EXPECT_THAT(back->laws[1].ids, ElementsAre(9));
}

TEST(Wire, AGreedyDraftHasNoRows) {
  v1::DraftPath wire;
  wire.add_token_ids(5);
  const auto path = FromWire(wire);
  ASSERT_TRUE(path.ok());
  EXPECT_THAT(path->tokens, ElementsAre(5));
  EXPECT_THAT(path->laws, IsEmpty());
}

TEST(Wire, MalformedDraftsAreRefused) {
  v1::DraftPath rows;  // two tokens, one row
  rows.add_token_ids(1);
  rows.add_token_ids(2);
  rows.add_rows();
  v1::DraftPath arrays;  // two ids, one weight
  arrays.add_token_ids(1);
  arrays.add_rows()->add_token_ids(1);
  arrays.mutable_rows(0)->add_token_ids(2);
  arrays.mutable_rows(0)->add_weights(65536);
  v1::DraftPath token;  // an id that would turn negative
  token.add_token_ids(0x80000000u);
  v1::DraftPath entry;
  entry.add_token_ids(1);
  entry.add_rows()->add_token_ids(0xffffffffu);
  entry.mutable_rows(0)->add_weights(65536);
  for (const v1::DraftPath& wire : {rows, arrays, token, entry}) {
    EXPECT_EQ(FromWire(wire).status().code(), Code::kInvalidArgument) << wire.ShortDebugString();
  }
}

}  // namespace
}  // namespace outrider
