#include "drafter/propose/head_state.h"

#include <algorithm>
#include <cmath>

#include "common/spec/stop_rule.h"

namespace outrider {
namespace {

constexpr float kLearningRate = 0.01f;  // of the bias, per token
constexpr int kEnough = 32;  // rounds, passes and tokens before the threshold is computed from them

}  // namespace

std::vector<float> HeadState::Predict(std::span<const float> hidden) const {
  std::vector<float> chances = head_->Logits(hidden);
  for (float& z : chances) z = 1.f / (1.f + std::exp(-(z + bias_)));
  return chances;
}

void HeadState::Learn(float predicted, float actual) {
  acceptance_.Add(static_cast<double>(actual));
  bias_ = std::clamp(bias_ + kLearningRate * (actual - predicted), -kMaxBias, kMaxBias);
}

void HeadState::OnPass(double seconds) { pass_seconds_.Add(seconds); }

void HeadState::OnRound(int tokens, double seconds) { tokens_per_second_.Add(tokens, seconds); }

float HeadState::threshold() const {
  if (pass_seconds_.count < kEnough || tokens_per_second_.count < kEnough ||
      acceptance_.count < kEnough || tokens_per_second_.weight <= 0) {
    return kFirstHeadThreshold;
  }
  return static_cast<float>(
      PayingThreshold(tokens_per_second_.value(), pass_seconds_.value(), acceptance_.value()));
}

}  // namespace outrider
