#include "verifier/engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/math/softmax.h"

namespace outrider {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float LogitOf(std::span<const float> row, TokenId token) {
  const float logit = row[static_cast<size_t>(token)];
  return std::isnan(logit) ? kNever : logit;
}

}  // namespace

TokenLogprobs LogprobsOf(std::span<const float> row, TokenId token, int top) {
  const float largest = RowMax(row);
  // Without a finite largest logit there is no distribution.
  if (!std::isfinite(largest)) return {.logprob = kNever};
  const double log_sum = static_cast<double>(largest) + std::log(ExpSum(row, largest));
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_sum);
  };
  const float own = LogitOf(row, token);
  TokenLogprobs out{.logprob = logprob(own), .rank = 1 + CountAbove(row, own)};
  for (const RowEntry& entry : LargestEntries(row, top)) {
    out.top.emplace_back(entry.id, logprob(entry.value));
  }
  const size_t wanted = std::min(static_cast<size_t>(std::max(top, 0)), row.size());
  for (TokenId id = 0; out.top.size() < wanted; ++id) {
    if (LogitOf(row, id) == kNever) out.top.emplace_back(id, kNever);
  }
  return out;
}

}  // namespace outrider
