// What drafting reads from the logits rows of one step: instead of a whole row, only its most
// likely entries, already as the distribution from which a draft token is sampled. The host and a
// GPU read the same batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/math/softmax.h"
#include "common/spec/row_sampling.h"

namespace outrider {

enum class RowPick : int32_t {
  kDistribution,  // the row's largest probabilities, in any order
  kTop,           // the most likely tokens after penalties and bias, in descending order
  kRace,          // the winners of the distribution's race (common/spec/race.h), in order
};

// What a stop rule needs to know about a row whose distribution is not picked.
enum class RowMeasure : int32_t {
  kNone,
  kLargest,  // the largest probability
  kEntropy,  // in nats
};

struct PickSpec {
  RowPick pick = RowPick::kDistribution;
  int32_t count = 1;  // maximum number of entries
  // kTop: of the model's row at temperature 1. kRace: of the row's distribution. kDistribution:
  // kNone.
  RowMeasure measure = RowMeasure::kNone;
  int32_t allowed = 0;    // ids from here on are never sampled; at most the row's width
  RowSampling sampling;   // temperature 0: a point mass
  uint64_t seed = 0;      // of the race
  uint32_t position = 0;  // of the race, too
};

// A chain: each depth's token is sampled from its row on the device and is the input of the next
// row.
struct ChainSampling {
  int32_t depths = 0;  // of all chains of a batch; 0: no chain, nothing is sampled
  // Keys of the uniform random numbers that sample the tokens; `first_depth` is that of the first.
  uint32_t round = 0, first_depth = 0;
  float mass = 1.f;  // DraftDistributionLimits::mass (draft_distribution.h)
};
inline constexpr int kMaxChainEntries = 1024;  // of a distribution from which a device samples

struct PickedRow {
  // Entries of positive probability, at most the spec's count; ties go to the lower id. kTop and
  // kRace: only the ids are meaningful.
  std::span<const RowEntry> entries;
  float measure = 0;
  TokenId sampled = -1;  // the token of a chain
  bool broken = false;   // an allowed logit is NaN or infinite
};

// A pick and the positions of its parts in the batch's arrays.
struct BatchedPick {
  PickSpec spec;
  int32_t row = 0;  // logits row
  int32_t first_seen = 0, seen = 0;
  int32_t first_bias = 0, biases = 0;
  int32_t first_mask = 0, mask = 0;
  // The draft tokens before the row: `depth` tokens after index `path`, whose own entry is unused.
  int32_t path = 0, depth = 0;
  int32_t first_entry = 0;  // index of its first entry in the output
  ChainSampling chain;
};

// Built sequence by sequence, with one pick per logits row, in order.
//
// Thread: the owner.
class PickBatch {
 public:
  // Keeps the capacity.
  void Clear() {
    sequence_ = {};
    picks_.clear();
    seen_.clear();
    biases_.clear();
    mask_.clear();
    path_tokens_.clear();
  }

  // Sets how the next sequence samples. Its suppressed tokens and its bad words of several tokens
  // are ignored: drafts may contain them.
  void BeginSequence(const SamplingState& state) {
    sequence_ = {.first_seen = static_cast<int32_t>(seen_.size()),
                 .seen = static_cast<int32_t>(state.seen.size()),
                 .first_bias = static_cast<int32_t>(biases_.size()),
                 .biases = static_cast<int32_t>(state.biases.size()),
                 .first_mask = static_cast<int32_t>(mask_.size()),
                 .mask = static_cast<int32_t>(state.mask.size())};
    seen_.insert(seen_.end(), state.seen.begin(), state.seen.end());
    biases_.insert(biases_.end(), state.biases.begin(), state.biases.end());
    mask_.insert(mask_.end(), state.mask.begin(), state.mask.end());
  }

  // Adds the sequence's next row; `path` is the draft tokens before it. `mask` replaces the
  // sequence's mask for this row; empty: the sequence's is used.
  void AddRow(const PickSpec& spec, std::span<const TokenId> path,
              std::span<const uint32_t> mask = {}) {
    BatchedPick pick = sequence_;
    pick.spec = spec;
    pick.row = size();
    pick.path = static_cast<int32_t>(path_tokens_.size());
    pick.depth = static_cast<int32_t>(path.size());
    if (!mask.empty()) {
      pick.first_mask = static_cast<int32_t>(mask_.size());
      pick.mask = static_cast<int32_t>(mask.size());
      mask_.insert(mask_.end(), mask.begin(), mask.end());
    }
    path_tokens_.push_back(-1);
    path_tokens_.insert(path_tokens_.end(), path.begin(), path.end());
    picks_.push_back(pick);
  }

  // Adds a chain that starts at the sequence's next row, to which `spec` applies; the rows of later
  // depths follow from it. REQUIRES: all picks of the batch are chains of equal depth; none has
  // more than kMaxChainEntries entries.
  void AddChain(const PickSpec& spec, std::span<const TokenId> path, const ChainSampling& chain) {
    AddRow(spec, path);
    picks_.back().chain = chain;
    path_tokens_.insert(path_tokens_.end(), static_cast<size_t>(chain.depths), -1);
  }

  // The number of rows, or of chains.
  int size() const { return static_cast<int>(picks_.size()); }
  bool empty() const { return picks_.empty(); }

  const std::vector<BatchedPick>& picks() const { return picks_; }
  const std::vector<SeenToken>& seen() const { return seen_; }
  const std::vector<TokenBias>& biases() const { return biases_; }
  const std::vector<uint32_t>& mask() const { return mask_; }
  const std::vector<TokenId>& path_tokens() const { return path_tokens_; }

 private:
  BatchedPick sequence_;
  std::vector<BatchedPick> picks_;
  std::vector<SeenToken> seen_;
  std::vector<TokenBias> biases_;
  std::vector<uint32_t> mask_;
  std::vector<TokenId> path_tokens_;
};

}  // namespace outrider
