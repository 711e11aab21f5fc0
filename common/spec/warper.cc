#include "common/spec/warper.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/math/residual_draw.h"
#include "common/math/softmax.h"
#include "common/spec/race.h"

namespace outrider {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Where top-p cuts: the last entry of the row's shortest prefix, in falling order (ties by rising
// id), that holds `goal` of the row's mass. Linear: one histogram over the leading bits of the
// floats (of the same order as the floats, which are not negative) finds the bucket where the sum
// crosses the goal, and only that bucket is sorted. (0, 0), nothing to cut, if rounding lets the
// whole row fall short.
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

// Zeroes everything behind `cut`; returns the mass that stays.
double KeepPrefix(std::span<float> probs, const RowEntry& cut) {
  for (size_t i = static_cast<size_t>(cut.id) + 1; i < probs.size(); ++i) {
    if (probs[i] == cut.value) probs[i] = 0.f;
  }
  return ZeroBelow(probs, cut.value);
}

}  // namespace

Warper::Warper(const SamplingParams& params, int vocab_size, int allowed)
    : params_(params), vocab_size_(vocab_size), allowed_(allowed) {
  OUTRIDER_CHECK(allowed > 0 && allowed <= vocab_size);
  if (params_.has_penalties()) {
    prompt_counts_.resize(static_cast<size_t>(vocab_size));
    output_counts_.resize(static_cast<size_t>(vocab_size));
    is_seen_.resize(static_cast<size_t>(vocab_size));
  }
}

void Warper::SuppressBefore(int min_output, std::vector<TokenId> tokens) {
  min_output_ = min_output;
  suppressed_ = std::move(tokens);
}

std::span<const TokenId> Warper::Suppressed() const {
  if (output_tokens_ >= min_output_) return {};
  return suppressed_;
}

void Warper::ObservePrompt(std::span<const TokenId> tokens) {
  if (!params_.has_penalties()) return;
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocab_size_) continue;
    const auto at = static_cast<size_t>(token);
    ++prompt_counts_[at];
    if (!is_seen_[at]) seen_.push_back(token);
    is_seen_[at] = true;
  }
  std::sort(seen_.begin(), seen_.end());
}

void Warper::ObserveOutput(TokenId token) {
  ++output_tokens_;
  if (params_.has_penalties()) Count(token, 1);
}

void Warper::Count(TokenId token, int change) {
  if (token < 0 || token >= vocab_size_) return;
  const auto at = static_cast<size_t>(token);
  output_counts_[at] += change;
  if (is_seen_[at]) return;
  is_seen_[at] = true;
  seen_.insert(std::lower_bound(seen_.begin(), seen_.end(), token), token);
}

std::vector<Warper::SeenToken> Warper::Seen() const {
  std::vector<SeenToken> seen;
  for (const TokenId token : seen_) {
    const auto at = static_cast<size_t>(token);
    if (prompt_counts_[at] + output_counts_[at] > 0) seen.push_back({token, output_counts_[at]});
  }
  return seen;
}

void Warper::AdjustLogits(std::span<float> logits, std::span<const TokenId> pending) {
  if (params_.has_penalties()) {
    for (const TokenId token : pending) Count(token, 1);
    for (const TokenId token : seen_) {
      const auto at = static_cast<size_t>(token);
      const int in_output = output_counts_[at];
      if (at >= logits.size() || in_output + prompt_counts_[at] == 0) continue;
      float& logit = logits[at];
      logit = logit > 0.f ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
      logit -= params_.frequency_penalty * static_cast<float>(in_output);
      if (in_output > 0) logit -= params_.presence_penalty;
    }
    for (const TokenId token : pending) Count(token, -1);
  }
  for (const auto& [token, bias] : params_.logit_bias) {
    if (static_cast<size_t>(token) < logits.size()) logits[static_cast<size_t>(token)] += bias;
  }
  if (output_tokens_ + static_cast<int>(pending.size()) >= min_output_) return;
  for (const TokenId token : suppressed_) {
    if (static_cast<size_t>(token) < logits.size()) logits[static_cast<size_t>(token)] = kNever;
  }
}

void Warper::Truncate(std::span<float> probs) const {
  double mass = 1;
  bool cut = false;
  if (params_.top_k > 0 && static_cast<size_t>(params_.top_k) < probs.size()) {
    mass = KeepPrefix(probs, KthLargest(probs, params_.top_k));
    cut = true;
  }
  if (params_.top_p < 1.f) {
    const double goal = static_cast<double>(params_.top_p) * mass;
    mass = KeepPrefix(probs, ShortestPrefix(probs, goal));
    cut = true;
  }
  if (params_.min_p > 0.f) {
    mass = ZeroBelow(probs, params_.min_p * RowMax(probs));
    cut = true;
  }
  if (cut) Scale(probs, static_cast<float>(1.0 / mass));
}

void Warper::Warp(std::span<float> row, std::span<const TokenId> pending) {
  OUTRIDER_CHECK(row.size() == static_cast<size_t>(vocab_size_));
  const std::span<float> logits = row.first(static_cast<size_t>(allowed_));
  std::fill(row.begin() + allowed_, row.end(), 0.f);
  AdjustLogits(logits, pending);
  if (params_.greedy()) {
    const TokenId best = RowArgmax(logits);
    std::fill(logits.begin(), logits.end(), 0.f);
    logits[static_cast<size_t>(best)] = 1.f;
    return;
  }
  Softmax(logits, params_.temperature);
  Truncate(logits);
}

TokenId Warper::Argmax(std::span<const float> row, std::span<const TokenId> pending) {
  OUTRIDER_CHECK(row.size() == static_cast<size_t>(vocab_size_));
  row = row.first(static_cast<size_t>(allowed_));
  if (!params_.has_penalties() && params_.logit_bias.empty() && Suppressed().empty()) {
    return RowArgmax(row);
  }
  scratch_.assign(row.begin(), row.end());
  AdjustLogits(scratch_, pending);
  return RowArgmax(scratch_);
}

std::vector<TokenId> Warper::Race(std::span<float> row, std::span<const TokenId> pending, int count,
                                  uint64_t seed, uint32_t position) {
  const bool whole = params_.top_k == 0 && params_.top_p >= 1.f && params_.min_p <= 0.f;
  if (whole && !params_.greedy()) {
    const std::span<float> logits = row.first(static_cast<size_t>(allowed_));
    AdjustLogits(logits, pending);
    std::vector<TokenId> winners =
        RaceWinnersOfLogits(logits, params_.temperature, count, seed, position);
    if (!winners.empty()) return winners;
    // A broken row, adjusted already: as Warp has it.
    Softmax(logits, params_.temperature);
    std::fill(row.begin() + allowed_, row.end(), 0.f);
  } else {
    Warp(row, pending);
  }
  return RaceWinners(row, count, seed, position);
}

TokenId SampleRow(std::span<const float> probs, double coin) {
  const ResidualRow<float, uint32_t> law{
      .target = probs.data(), .vocab = static_cast<int>(probs.size()), .draft = {}};
  return DrawResidual(law, coin);
}

}  // namespace outrider
