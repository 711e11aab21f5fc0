// What a device reads from one step's rows of logits for those who draft: instead of a row there
// come its likeliest entries, the law that is drawn from already warped.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/math/softmax.h"
#include "common/spec/row_sampling.h"

namespace outrider {

enum class RowPick : int32_t {
  kDistribution,  // the largest probabilities of the warped row, in any order
  kTop,           // the most likely tokens after penalties and bias, in falling order
  kRace,          // the winners of the warped row's race (common/spec/race.h), in their order
};

// What a stop rule wants to know of a row whose law does not come.
enum class RowMeasure : int32_t {
  kNone,
  kLargest,  // the largest probability
  kEntropy,  // in nats
};

struct PickSpec {
  RowPick pick = RowPick::kDistribution;
  int32_t count = 1;  // entries at most
  // kTop: of the row as it came, at temperature 1. kRace: of the warped row. kLaw: none.
  RowMeasure measure = RowMeasure::kNone;
  int32_t allowed = 0;    // ids from here on are never sampled; at most the row's width
  RowSampling sampling;   // temperature 0: a point mass
  uint64_t seed = 0;      // of the race
  uint32_t position = 0;  // likewise
};

// A chain: each depth is drawn from its row where that is, and its token fed for the next one.
struct ChainDraw {
  int32_t depths = 0;  // of all chains of a batch; 0: no chain, nothing is drawn
  // Sampled draws' coins: of the first depth. draft_law.h: where laws are cut.
  uint32_t round = 0, first_depth = 0;
  float mass = 1.f;
};
inline constexpr int kMaxChainEntries = 1024;  // of a law that is drawn from on a device

struct PickedRow {
  // Of positive probability, at most the spec's count, ties by the lower id. kTop and kRace: the
  // ids alone.
  std::span<const RowEntry> entries;
  float measure = 0;
  TokenId drawn = -1;   // chains
  bool broken = false;  // the row is NaN or infinite somewhere
};

// A row with where its parts stand in the batch's arrays.
struct BatchedPick {
  PickSpec spec;
  int32_t row = 0;  // of the step's logits
  int32_t first_seen = 0, seen = 0;
  int32_t first_bias = 0, biases = 0;
  // Of the path behind the seen tokens: `depth` tokens behind the place `path`, which is empty.
  int32_t path = 0, depth = 0;
  int32_t first_entry = 0;  // where its entries go
  ChainDraw chain;
};

// Built session by session, row by row, in the order of the step's logits; rows of sequences that
// are not read (SkipRows) may stand between them.
//
// Thread: the owner.
class PickBatch {
 public:
  void Clear() { *this = PickBatch(); }

  void SkipRows(int count) { next_row_ += count; }

  // How the session samples. Suppressed tokens are not looked at: drafts may hold them.
  void BeginSession(const SamplingState& state) {
    session_ = {.first_seen = static_cast<int32_t>(seen_.size()),
                .seen = static_cast<int32_t>(state.seen.size()),
                .first_bias = static_cast<int32_t>(biases_.size()),
                .biases = static_cast<int32_t>(state.biases.size())};
    seen_.insert(seen_.end(), state.seen.begin(), state.seen.end());
    biases_.insert(biases_.end(), state.biases.begin(), state.biases.end());
  }

  // The session's next row; `path`: the tokens behind those of `seen` that lead to it.
  void AddRow(const PickSpec& spec, std::span<const TokenId> path) {
    BatchedPick row = session_;
    row.spec = spec;
    row.row = next_row_++;
    row.path = static_cast<int32_t>(path_tokens_.size());
    row.depth = static_cast<int32_t>(path.size());
    path_tokens_.push_back(-1);
    path_tokens_.insert(path_tokens_.end(), path.begin(), path.end());
    rows_.push_back(row);
  }

  // A chain whose first row is the session's next one, `spec` that row's; later ones are those of
  // the depths behind it. REQUIRES: all of the batch are chains of as many depths; none has more
  // than kMaxChainEntries entries.
  void AddChain(const PickSpec& spec, std::span<const TokenId> path, const ChainDraw& chain) {
    AddRow(spec, path);
    rows_.back().chain = chain;
    path_tokens_.insert(path_tokens_.end(), static_cast<size_t>(chain.depths), -1);
  }

  // Or chains.
  int rows() const { return static_cast<int>(rows_.size()); }

 private:
  friend class DevicePicks;  // sends the arrays

  int32_t next_row_ = 0;
  BatchedPick session_;
  std::vector<BatchedPick> rows_;
  std::vector<SeenToken> seen_;
  std::vector<TokenBias> biases_;
  std::vector<TokenId> path_tokens_;
};

}  // namespace outrider
