// What a device needs to verify one step's drafts, as flat arrays: what its sessions sample by and
// their drafts' trees, in words of their own, as the layers above know these things by other types.
// docs/exactness.md names the rules; warper.h and draft_tree.h (common/spec) say what is meant.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/backend/row_warp.h"
#include "common/base/check.h"
#include "common/base/types.h"

namespace outrider {

enum class VerifyRule : int32_t {
  kPlain,  // no draft: one token drawn
  kToken,
  kBlock,
  kSpecTr,
  kMultiRound,
  kMultiPathBlock,
  kArgmax,  // temperature 0: a draft token stands where it is the argmax
  kRace,    // gumbel
};

// One session's round.
struct RoundSpec {
  VerifyRule rule = VerifyRule::kPlain;
  RowWarp warp;  // of all rows; temperature above 0 but for kArgmax
  uint64_t seed = 0;
  uint32_t round = 0;     // keys the coins
  uint32_t position = 0;  // of the round's first token in the session; keys the race
};

// The same with where its parts stand in the batch's arrays.
struct BatchedRound {
  RoundSpec spec;
  int32_t first_node = 0, nodes = 0;  // the root included
  int32_t first_row = 0;              // of the step's logits: the root's
  int32_t first_seen = 0, seen = 0;
  int32_t first_bias = 0, biases = 0;
  int32_t max_depth = 0, max_entries = 1;  // of its draft and of one of its laws
  int64_t scratch = 0;                     // where its part of the scratch memory begins, in bytes
};

// The step's rows of logits, one behind another. Ids from `allowed` on are never sampled.
// REQUIRES: 0 < allowed <= vocab <= kMaxVerifiedVocab.
struct LogitRows {
  float* data = nullptr;
  int vocab = 0;
  int allowed = 0;
};
inline constexpr int kMaxVerifiedVocab = 1 << 20;

struct DeviceVerdict {
  int32_t node = 0;  // of the session's tree
  int32_t accepted = 0;
  TokenId next = -1;
  // Of a root with several sampled draws: FirstTokenAcceptance (common/rules/verify.h). Else 0.
  float kseq_acceptance = 0;
  float optimal_acceptance = 0;
  // Depth of the first node on the way to `node` whose row is NaN or infinite somewhere; -1: none.
  int32_t broken_depth = -1;
};

struct DeviceVerdicts {
  std::span<const DeviceVerdict> verdicts;  // by session of the batch
  // By node of the batch: AcceptanceByte (common/math/accept.h) of every drafted node under a
  // sampling rule, else 0.
  std::span<const uint8_t> acceptance;
};

// Built session by session, node by node. The sessions' rows stand in the step's logits in the
// order of their nodes, a session's together, its root's first; rows of sessions that are not in
// the batch may stand between them (SkipRows).
//
// Thread: the owner.
class VerifyBatch {
 public:
  void Clear() { *this = VerifyBatch(); }

  // The step's next rows belong to no session of the batch.
  void SkipRows(int count) { next_row_ += count; }

  // `seen`: rising, distinct tokens; may be empty without penalties. `biases`: distinct tokens.
  void BeginSession(const RoundSpec& spec, std::span<const SeenToken> seen = {},
                    std::span<const TokenBias> biases = {}) {
    rounds_.push_back({.spec = spec,
                       .first_node = rows(),
                       .first_row = next_row_,
                       .first_seen = static_cast<int32_t>(seen_.size()),
                       .seen = static_cast<int32_t>(seen.size()),
                       .first_bias = static_cast<int32_t>(biases_.size()),
                       .biases = static_cast<int32_t>(biases.size())});
    seen_.insert(seen_.end(), seen.begin(), seen.end());
    biases_.insert(biases_.end(), biases.begin(), biases.end());
  }

  // The session's next node, as DraftTree numbers them, the root (parent -1) first. `draws`: its
  // children in draft order, duplicates kept. The law they came from: weights that sum to 65536; no
  // entries: a point mass on the first.
  void AddNode(TokenId token, int parent, std::span<const int32_t> draws,
               std::span<const TokenId> law_ids, std::span<const uint32_t> law_weights) {
    OUTRIDER_CHECK(law_ids.size() == law_weights.size());
    BatchedRound& round = rounds_.back();
    OUTRIDER_CHECK(parent < round.nodes && (parent >= 0) == (round.nodes > 0));
    const int32_t depth =
        parent < 0
            ? 0
            : depths_[static_cast<size_t>(round.first_node) + static_cast<size_t>(parent)] + 1;
    ++round.nodes;
    ++next_row_;
    round.max_depth = std::max(round.max_depth, depth);
    round.max_entries = std::max(round.max_entries, static_cast<int32_t>(law_ids.size()));
    round_of_.push_back(static_cast<int32_t>(rounds_.size()) - 1);
    tokens_.push_back(token);
    parents_.push_back(parent);
    depths_.push_back(depth);
    draws_.insert(draws_.end(), draws.begin(), draws.end());
    draws_end_.push_back(static_cast<int32_t>(draws_.size()));
    law_ids_.insert(law_ids_.end(), law_ids.begin(), law_ids.end());
    law_weights_.insert(law_weights_.end(), law_weights.begin(), law_weights.end());
    law_end_.push_back(static_cast<int32_t>(law_ids_.size()));
  }

  int sessions() const { return static_cast<int>(rounds_.size()); }
  // Nodes, each with a row of its own.
  int rows() const { return static_cast<int>(tokens_.size()); }

 private:
  friend class DeviceRules;  // sends the arrays

  int32_t next_row_ = 0;
  std::vector<BatchedRound> rounds_;
  std::vector<SeenToken> seen_;
  std::vector<TokenBias> biases_;
  // By node.
  std::vector<int32_t> round_of_, parents_, depths_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> draws_end_{0}, law_end_{0};  // [nodes + 1]: where the node's begin
  std::vector<int32_t> draws_;
  std::vector<TokenId> law_ids_;
  std::vector<uint32_t> law_weights_;
};

}  // namespace outrider
