// The rounds that one step decides, as flat arrays for the host and a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/math/accept.h"
#include "common/math/host_device.h"
#include "common/math/weight_rounding.h"
#include "common/rules/rule_scratch.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"
#include "common/spec/row_sampling.h"

namespace outrider {

// What decides a sequence's round, apart from its draft and its sampling.
struct RoundSpec {
  Rule rule = Rule::kToken;
  uint64_t seed = 0;
  uint32_t round = 0;             // keys the random numbers
  uint32_t position = 0;          // index of the round's first token in the sequence; keys the race
  bool wants_acceptance = false;  // fill Decisions::acceptance
};

// One round of a batch, with the positions of its parts in the batch's arrays.
struct RoundHeader {
  RoundSpec spec;
  RowSampling sampling;
  int32_t first_node = 0, nodes = 0;  // including the root; its logits row has the same number
  int32_t first_seen = 0, seen = 0;
  int32_t first_bias = 0, biases = 0;
  int32_t first_suppressed = 0, suppressed = 0;
  int32_t suppressed_rows = 0;  // see SamplingState
  int32_t first_mask = 0, mask = 0;
  int32_t mask_step = 0;  // from a node's mask to the next node's; 0: all share one
  int32_t first_bad_word = 0, bad_words = 0;
  int32_t first_bad_token = 0, bad_tokens = 0;
  int32_t first_recent = 0, recent = 0;
  int32_t max_depth = 0, max_entries = 1;  // of its draft and of one of its draft distributions
  int64_t scratch = 0;  // offset of the round's scratch memory on a GPU, in bytes

  // How the round's tokens are chosen. kSampled: a rule decides over distributions.
  OUTRIDER_HD DraftKind kind() const { return DraftKindOf(spec.rule, sampling.greedy()); }
  // Offset of the mask of the row after `node`. REQUIRES: mask > 0.
  OUTRIDER_HD int32_t mask_of(int node) const { return first_mask + node * mask_step; }
};

// A batch's arrays, in host or device memory.
struct RoundArrays {
  const RoundHeader* rounds = nullptr;
  const SeenToken* seen = nullptr;
  const TokenBias* biases = nullptr;
  const TokenId* suppressed = nullptr;
  const uint32_t* mask = nullptr;
  const BadWord* bad_words = nullptr;
  const TokenId* bad_tokens = nullptr;
  const TokenId* recent = nullptr;
  // By node:
  const int32_t* round_of = nullptr;
  const int32_t* parents = nullptr;  // within the round; the root's is -1
  const int32_t* depths = nullptr;
  const TokenId* tokens = nullptr;
  const int32_t* draws_begin = nullptr;  // [nodes + 1]
  const int32_t* draft_begin = nullptr;  // [nodes + 1]
  const int32_t* draws = nullptr;
  const TokenId* draft_ids = nullptr;
  const uint32_t* draft_weights = nullptr;
};

// The children of a node's draft tokens, in the order of sampling.
struct Draws {
  const int32_t* first = nullptr;
  int count = 0;
  OUTRIDER_HD size_t size() const { return static_cast<size_t>(count); }
  OUTRIDER_HD int32_t operator[](size_t i) const { return first[i]; }
};

// One round's draft. With a target() it is a DraftRound (rule.h).
class BatchedRound {
 public:
  OUTRIDER_HD BatchedRound(const RoundArrays& arrays, int round)
      : arrays_(arrays), header_(arrays.rounds[round]) {}

  OUTRIDER_HD const RoundHeader& header() const { return header_; }
  OUTRIDER_HD int nodes() const { return header_.nodes; }
  OUTRIDER_HD int max_depth() const { return header_.max_depth; }
  OUTRIDER_HD int max_entries() const { return header_.max_entries; }
  OUTRIDER_HD TokenId token(int node) const { return arrays_.tokens[at(node)]; }
  OUTRIDER_HD int parent(int node) const { return arrays_.parents[at(node)]; }
  OUTRIDER_HD int depth(int node) const { return arrays_.depths[at(node)]; }
  OUTRIDER_HD Draws draws(int node) const {
    const int32_t* begin = arrays_.draws_begin + at(node);
    return {arrays_.draws + begin[0], begin[1] - begin[0]};
  }
  OUTRIDER_HD SparseRow<uint32_t> draft(int node) const {
    const int32_t* begin = arrays_.draft_begin + at(node);
    return {arrays_.draft_ids + begin[0], arrays_.draft_weights + begin[0], begin[1] - begin[0],
            1.0 / kDraftWeightTotal};
  }

 protected:
  // Index among the batch's nodes.
  OUTRIDER_HD int at(int node) const { return header_.first_node + node; }

 private:
  const RoundArrays& arrays_;
  const RoundHeader& header_;
};

// A batch, built round by round. The nodes of all rounds are numbered one after another, and so are
// the logits rows: those of the last forward pass, in its order.
//
// Thread: the owner.
class RoundBatch {
 public:
  RoundBatch() { Clear(); }

  // Keeps the allocated memory.
  void Clear();

  // REQUIRES: `draft` is valid (Validate of draft_tree.h). The tokens after a node without a
  // distribution came from point masses. `node_masks`: a mask for each node, the root's first,
  // instead of `sampling`'s; empty: that one applies to every node. `ends`: nodes at which the
  // draft ends, as if no tokens followed.
  void Add(const RoundSpec& spec, const DraftTree& draft, const SamplingState& sampling,
           std::span<const uint32_t> node_masks = {}, std::span<const int32_t> ends = {});

  int size() const { return static_cast<int>(rounds_.size()); }
  bool empty() const { return rounds_.empty(); }
  // Number of nodes of all rounds, including roots: the number of logits rows.
  int nodes() const { return static_cast<int>(tokens_.size()); }
  const RoundHeader& round(int i) const { return rounds_[static_cast<size_t>(i)]; }
  std::span<const RoundHeader> rounds() const { return rounds_; }
  // Scratch memory for all rounds at once (RoundHeader::scratch).
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // Points into this object, until it changes.
  RoundArrays arrays() const;
  // The same; send(vector) copies each array and returns its new address.
  template <class Send>
  RoundArrays Copy(Send send) const {
    return {.rounds = send(rounds_),
            .seen = send(seen_),
            .biases = send(biases_),
            .suppressed = send(suppressed_),
            .mask = send(mask_),
            .bad_words = send(bad_words_),
            .bad_tokens = send(bad_tokens_),
            .recent = send(recent_),
            .round_of = send(round_of_),
            .parents = send(parents_),
            .depths = send(depths_),
            .tokens = send(tokens_),
            .draws_begin = send(draws_begin_),
            .draft_begin = send(draft_begin_),
            .draws = send(draws_),
            .draft_ids = send(draft_ids_),
            .draft_weights = send(draft_weights_)};
  }

 private:
  void AddMasks(const SamplingState& sampling, std::span<const uint32_t> node_masks,
                RoundHeader& round);
  void AddNode(const DraftTree& draft, int node, bool is_end, RoundHeader& round);

  int64_t scratch_bytes_ = 0;
  std::vector<RoundHeader> rounds_;
  std::vector<SeenToken> seen_;
  std::vector<TokenBias> biases_;
  std::vector<TokenId> suppressed_;
  std::vector<uint32_t> mask_;
  std::vector<BadWord> bad_words_;
  std::vector<TokenId> bad_tokens_, recent_;
  std::vector<int32_t> round_of_, parents_, depths_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> draws_begin_, draft_begin_;  // [nodes + 1]: offsets by node
  std::vector<int32_t> draws_;
  std::vector<TokenId> draft_ids_;
  std::vector<uint32_t> draft_weights_;
};

// The logits rows by which a batch is decided, one after another; ids from `allowed` on are never
// sampled. REQUIRES: 0 < allowed <= vocab <= kMaxVocabulary.
struct LogitRows {
  float* data = nullptr;
  int vocab = 0;
  int allowed = 0;
};

// The acceptance probability of a round's first token: by k-SEQ over the draft tokens at the root,
// and the maximum of any rule that picks one of them or another token (SpecTr's alpha_k). Both are
// 1 - d_TV for one draft token, and 0 without any.
struct FirstTokenAcceptance {
  double kseq = 0;
  double optimum = 0;
};

struct DecidedRound {
  Verdict verdict;
  FirstTokenAcceptance first_token;  // with several sampled draft tokens at the root; else 0
  // Depth of the first NaN or infinite logits row on which the verdict depends; -1: none. Only rows
  // that plain decoding would have read count. A rule uses the distribution that the logits
  // processors make of a broken row, so a draft cannot end a request by leading elsewhere, and does
  // not change the text's distribution.
  int32_t broken_depth = -1;
  // Draft nodes, from 1 on, whose acceptance is known: on a GPU all, on the host those before the
  // first one whose target distribution the rule has not needed.
  int32_t known_nodes = 0;
};

struct Decisions {
  std::span<const DecidedRound> rounds;  // of the batch
  // By node of the batch, including roots: AcceptanceByte (common/math/accept.h) of each known
  // node, for rounds that want it.
  std::span<const uint8_t> acceptance;
};

// AcceptanceByte of draft node `node`, given the target distribution at its parent.
template <class Round>
OUTRIDER_HD uint8_t AcceptanceAt(const Round& round, int node, const float* target) {
  const TokenId token = round.token(node);
  return AcceptanceByte(static_cast<double>(target[token]),
                        round.draft(round.parent(node)).Of(token));
}

// DecidedRound::broken_depth of a round that ends at `node`. is_broken(n): whether node n's row is
// broken.
template <class IsBroken>
OUTRIDER_HD int BrokenDepth(const BatchedRound& round, int node, IsBroken is_broken) {
  int first = -1;
  for (; node >= 0; node = round.parent(node)) {
    if (is_broken(node)) first = round.depth(node);
  }
  return first;
}

}  // namespace outrider
