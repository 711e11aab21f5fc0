// Sampling parameters for tests of rows that become distributions on a device, and the tolerance
// for these.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/spec/sampling_params.h"
#include "tests/support/verify_rounds.h"

namespace outrider {

inline SamplingParams RandomParams(testing::Random& random, int allowed) {
  SamplingParams p;
  p.temperature = static_cast<float>(0.2 + 1.6 * random.Unit());
  if (random.Below(2) == 0) p.top_k = 1 + random.Below(allowed + 2);
  if (random.Below(2) == 0) p.top_p = static_cast<float>(0.05 + 0.95 * random.Unit());
  if (random.Below(3) == 0) p.min_p = static_cast<float>(0.3 * random.Unit());
  if (random.Below(2) == 0) {
    p.repetition_penalty = static_cast<float>(0.7 + random.Unit());
    p.presence_penalty = static_cast<float>(2 * random.Unit() - 1);
    p.frequency_penalty = static_cast<float>(2 * random.Unit() - 1);
  }
  if (random.Below(3) == 0) {
    p.logit_bias = {{0, 1.5f}, {allowed - 1, -100.f}};
    if (allowed == 1) p.logit_bias = {{0, 3.f}};
  }
  return p;
}

// Allows every second token, and excludes one of these separately. REQUIRES: allowed >= 8.
inline void AddMask(testing::Random& random, int allowed, SamplingParams* params) {
  std::vector<TokenId> tokens;
  for (TokenId token = random.Below(2); token < allowed; token += 2) tokens.push_back(token);
  params->bad_words = {{tokens[static_cast<size_t>(random.Below(4))]}};
  params->allowed_tokens = std::move(tokens);
}

// With the tolerance of kernels/sampling.h.
inline void ExpectSameDistribution(const std::vector<float>& expected,
                                   const std::vector<float>& actual, const std::string& what) {
  constexpr double kTolerance = 2e-6;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto p = static_cast<double>(expected[i]), q = static_cast<double>(actual[i]);
    ASSERT_EQ(p > 1e-35, q > 1e-35) << what << " token " << i << ": " << p << " and " << q;
    ASSERT_NEAR(p, q, kTolerance * p + 1e-35) << what << " token " << i;
  }
}

}  // namespace outrider
