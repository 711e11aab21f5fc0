#include "drafter/propose/head_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "common/spec/stop_rule.h"

namespace outrider {
namespace {

// The logit is the hidden state's only entry.
const AcceptanceHead kIdentity{.width = 1, .depth = 0, .parameters = {1.f, 0.f}};

float Chance(float logit) { return 1.f / (1.f + std::exp(-logit)); }

TEST(HeadState, PredictsByTheLogisticFunction) {
  const HeadState state(&kIdentity);
  const std::vector<float> hidden = {0.f, 2.f, -30.f};
  const std::vector<float> chances = state.Predict(hidden);
  ASSERT_EQ(chances.size(), 3u);
  EXPECT_FLOAT_EQ(chances[0], 0.5f);
  EXPECT_FLOAT_EQ(chances[1], Chance(2.f));
  EXPECT_NEAR(chances[2], 0.f, 1e-9f);
}

// A head whose logits are off by a constant: the bias corrects it, up to the cap.
TEST(HeadState, LearnsBiasThatHeadLacks) {
  for (const float off : {-1.f, 0.7f, 5.f}) {
    HeadState state(&kIdentity);
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
      const float z = static_cast<float>(random() % 1000) / 250.f - 2.f;
      const std::vector<float> hidden = {z};
      state.Learn(state.Predict(hidden)[0], Chance(z + off));
    }
    EXPECT_NEAR(state.bias(), std::min(off, HeadState::kMaxBias), 0.05f) << off;
  }
}

TEST(HeadState, OneTokenMovesBiasLittle) {
  HeadState state(&kIdentity);
  state.Learn(0.f, 1.f);
  EXPECT_LE(std::abs(state.bias()), 0.0101f);
  for (int i = 0; i < 100000; ++i) state.Learn(1.f, 0.f);
  EXPECT_EQ(state.bias(), -HeadState::kMaxBias);
}

TEST(HeadState, ThresholdFollowsSpeed) {
  HeadState state(&kIdentity);
  EXPECT_EQ(state.threshold(), kFirstHeadThreshold);
  // The published times and speed on Alpaca: a pass of 23.4 ms, 18.9 tokens per second, 0.832
  // accepted: 1 - 18.9 * 0.0234 / 0.832^2 = 0.361.
  for (int i = 0; i < 1000; ++i) {
    state.OnPass(0.0234);
    state.OnRound(4, 4 / 18.9);
    state.Learn(0.832f, 0.832f);
  }
  EXPECT_NEAR(state.threshold(), 0.361f, 0.002f);
  for (int i = 0; i < 3000; ++i) state.OnPass(0.5);  // a slow drafter stops at once
  EXPECT_FLOAT_EQ(state.threshold(), 0.05f);
  for (int i = 0; i < 3000; ++i) state.OnPass(1e-6);
  EXPECT_FLOAT_EQ(state.threshold(), 0.95f);
}

}  // namespace
}  // namespace outrider
