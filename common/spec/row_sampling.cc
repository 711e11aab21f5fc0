#include "common/spec/row_sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "common/base/check.h"
#include "common/math/residual_draw.h"
#include "common/math/softmax.h"
#include "common/spec/race.h"

namespace outrider {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Where top-p cuts: the last entry of the row's shortest prefix, in descending order (ties by
// ascending id), that has `goal` of the row's mass. Linear: a histogram over the leading bits of
// the floats (which order them, as they are not negative) finds the bucket where the sum crosses
// the goal, and only that bucket is sorted. (0, 0), nothing to cut, if the whole row falls short
// because of rounding.
RowEntry ShortestPrefix(std::span<const float> probs, double goal) {
  constexpr int kDroppedBits = 20;  // leaves sign, exponent and 3 bits of mantissa
  constexpr int kBuckets = 1 << (31 - kDroppedBits);
  const auto bucket_of = [](float p) {
    return static_cast<int>(std::bit_cast<uint32_t>(p) >> kDroppedBits);
  };

  std::array<double, kBuckets> sums{};
  for (const float p : probs) {
    if (p > 0.f) sums[static_cast<size_t>(bucket_of(p))] += static_cast<double>(p);
  }
  int bucket = kBuckets - 1;
  double sum = 0;
  while (bucket > 0 && sum + sums[static_cast<size_t>(bucket)] < goal) {
    sum += sums[static_cast<size_t>(bucket--)];
  }

  std::vector<RowEntry> entries;
  for (size_t i = 0; i < probs.size(); ++i) {
    if (probs[i] > 0.f && bucket_of(probs[i]) == bucket) {
      entries.push_back({static_cast<TokenId>(i), probs[i]});
    }
  }
  std::sort(entries.begin(), entries.end(), LargerFirst);
  RowEntry cut;
  for (const RowEntry& entry : entries) {
    cut = entry;
    sum += static_cast<double>(entry.value);
    if (sum >= goal) break;
  }
  return cut;
}

// Zeroes everything after `cut`; returns the remaining mass.
double KeepPrefix(std::span<float> probs, const RowEntry& cut) {
  for (size_t i = static_cast<size_t>(cut.id) + 1; i < probs.size(); ++i) {
    if (probs[i] == cut.value) probs[i] = 0.f;
  }
  return ZeroBelow(probs, cut.value);
}

// Calls f(token, its count in the output and `path`) for every token of `seen` or `path`,
// ascending.
template <class F>
void ForSeen(std::span<const SeenToken> seen, std::span<const TokenId> path, const F& f) {
  std::vector<TokenId> drafted(path.begin(), path.end());
  std::sort(drafted.begin(), drafted.end());
  auto next = drafted.begin();
  const auto take = [&](TokenId token) {
    int count = 0;
    for (; next != drafted.end() && *next == token; ++next) ++count;
    return count;
  };
  for (const SeenToken& entry : seen) {
    while (next != drafted.end() && *next < entry.token) {
      const TokenId token = *next;
      f(token, take(token));
    }
    f(entry.token, entry.in_output + take(entry.token));
  }
  while (next != drafted.end()) {
    const TokenId token = *next;
    f(token, take(token));
  }
}

// Gives probability 0 to tokens outside the mask and to the ends of bad words.
void MaskLogits(const SamplingState& state, std::span<const TokenId> path,
                std::span<float> logits) {
  if (!state.mask.empty()) {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!MaskHolds(state.mask.data(), static_cast<TokenId>(i))) logits[i] = kNever;
    }
  }
  const auto before = [&](int i) {
    size_t back = static_cast<size_t>(i);
    if (back < path.size()) return path[path.size() - 1 - back];
    back -= path.size();
    return back < state.recent.size() ? state.recent[state.recent.size() - 1 - back] : -1;
  };
  for (const BadWord& word : state.bad_words) {
    const TokenId last = state.bad_tokens[static_cast<size_t>(word.first + word.size - 1)];
    if (static_cast<size_t>(last) < logits.size() &&
        IsBegun(word, state.bad_tokens.data(), before)) {
      logits[static_cast<size_t>(last)] = kNever;
    }
  }
}

// Applies penalties, bias and masks in place to the allowed part of a row.
void AdjustLogits(const SamplingState& state, std::span<const TokenId> path,
                  std::span<float> logits) {
  const auto holds = [&](TokenId token) {
    return token >= 0 && static_cast<size_t>(token) < logits.size();
  };
  if (state.sampling.has_penalties()) {
    ForSeen(state.seen, path, [&](TokenId token, int in_output) {
      if (!holds(token)) return;
      float& logit = logits[static_cast<size_t>(token)];
      logit = PenalizedLogit(state.sampling, in_output, logit);
    });
  }
  for (const TokenBias& bias : state.biases) {
    if (holds(bias.token)) logits[static_cast<size_t>(bias.token)] += bias.bias;
  }
  MaskLogits(state, path, logits);
  if (static_cast<int>(path.size()) >= state.suppressed_rows) return;
  for (const TokenId token : state.suppressed) {
    if (holds(token)) logits[static_cast<size_t>(token)] = kNever;
  }
}

void Truncate(const RowSampling& sampling, std::span<float> probs) {
  double mass = 1;
  if (sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < probs.size()) {
    mass = KeepPrefix(probs, KthLargest(probs, sampling.top_k));
  }
  if (sampling.top_p < 1.f) {
    const double goal = static_cast<double>(sampling.top_p) * mass;
    mass = KeepPrefix(probs, ShortestPrefix(probs, goal));
  }
  if (sampling.min_p > 0.f) mass = ZeroBelow(probs, sampling.min_p * RowMax(probs));
  Scale(probs, static_cast<float>(1.0 / mass));
}

}  // namespace

void MakeDistribution(const SamplingState& state, int allowed, std::span<const TokenId> path,
                      std::span<float> row) {
  const std::span<float> logits = row.first(static_cast<size_t>(allowed));
  std::fill(row.begin() + allowed, row.end(), 0.f);
  AdjustLogits(state, path, logits);
  if (state.sampling.greedy()) {
    const TokenId best = RowArgmax(logits);
    std::fill(logits.begin(), logits.end(), 0.f);
    logits[static_cast<size_t>(best)] = 1.f;
    return;
  }
  Softmax(logits, state.sampling.temperature);
  if (state.sampling.truncates(allowed)) Truncate(state.sampling, logits);
}

TokenId MostLikely(const SamplingState& state, int allowed, std::span<const TokenId> path,
                   std::span<float> row) {
  const std::span<float> logits = row.first(static_cast<size_t>(allowed));
  AdjustLogits(state, path, logits);
  return RowArgmax(logits);
}

std::vector<TokenId> TopTokens(const SamplingState& state, int allowed,
                               std::span<const TokenId> path, std::span<float> row, int count) {
  const std::span<float> logits = row.first(static_cast<size_t>(allowed));
  AdjustLogits(state, path, logits);
  std::vector<TokenId> top;
  while (top.size() < static_cast<size_t>(count)) {
    const TokenId best = RowArgmax(logits);
    if (!top.empty() && !(logits[static_cast<size_t>(best)] > kNever)) break;
    top.push_back(best);
    logits[static_cast<size_t>(best)] = kNever;
  }
  return top;
}

std::vector<TokenId> RaceOrder(const SamplingState& state, int allowed,
                               std::span<const TokenId> path, std::span<float> row, int count,
                               uint64_t seed, uint32_t position) {
  const RowSampling& sampling = state.sampling;
  if (!sampling.greedy() && !sampling.truncates(allowed)) {
    const std::span<float> logits = row.first(static_cast<size_t>(allowed));
    AdjustLogits(state, path, logits);
    std::vector<TokenId> winners =
        RaceWinnersOfLogits(logits, sampling.temperature, count, seed, position);
    if (!winners.empty()) return winners;
    // A broken row, already adjusted: see MakeDistribution.
    Softmax(logits, sampling.temperature);
    std::fill(row.begin() + allowed, row.end(), 0.f);
  } else {
    MakeDistribution(state, allowed, path, row);
  }
  return RaceWinners(row, count, seed, position);
}

TokenId SampleRow(std::span<const float> probs, double coin) {
  return DrawResidual(
      {.target = probs.data(), .vocab = static_cast<int>(probs.size()), .draft = {}}, coin);
}

}  // namespace outrider
