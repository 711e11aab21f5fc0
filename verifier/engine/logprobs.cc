#include "verifier/engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace outrider {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

float LogitOf(std::span<const float> row, TokenId token) {
  const float logit = row[static_cast<size_t>(token)];
  return std::isnan(logit) ? kNever : logit;
}

}  // namespace

TokenLogprobs LogprobsOf(std::span<const float> row, TokenId token, int top) {
  const auto size = static_cast<TokenId>(row.size());
  float largest = kNever;
  for (TokenId id = 0; id < size; ++id) largest = std::max(largest, LogitOf(row, id));
  // Without a finite largest logit there is no distribution.
  if (!std::isfinite(largest)) return {.logprob = kNever};
  double sum = 0;
  const float own = LogitOf(row, token);
  int rank = 1;
  for (TokenId id = 0; id < size; ++id) {
    sum += std::exp(static_cast<double>(LogitOf(row, id)) - static_cast<double>(largest));
    if (LogitOf(row, id) > own) ++rank;
  }
  const double log_sum = static_cast<double>(largest) + std::log(sum);
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(static_cast<double>(LogitOf(row, id)) - log_sum);
  };
  TokenLogprobs out{.logprob = logprob(token), .rank = rank};
  // A short sorted list: most tokens are less likely than its last entry.
  std::vector<TokenId> best;
  for (TokenId id = 0; id < size && top > 0; ++id) {
    const bool full = static_cast<int>(best.size()) == top;
    if (full && !(LogitOf(row, id) > LogitOf(row, best.back()))) continue;
    if (full) best.pop_back();
    const auto it = std::upper_bound(best.begin(), best.end(), id, [&](TokenId a, TokenId b) {
      return LogitOf(row, a) > LogitOf(row, b);
    });
    best.insert(it, id);
  }
  for (const TokenId id : best) out.top.emplace_back(id, logprob(id));
  return out;
}

}  // namespace outrider
