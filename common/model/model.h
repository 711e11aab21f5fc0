// What the services know of a model: a forward pass over a ragged batch of sequences, each with its
// own new tokens (a chain or a tree), on top of a paged KV cache. Nothing here says where the
// memory is: rounds are decided and drafts are made over the logits where they are, and logits come
// to the host only for callers that ask for them.
//
// Thread: one owner thread per Model (the engine thread); not synchronised.
#pragma once

#include <cstdint>
#include <span>

#include "common/backend/device_ops.h"
#include "common/backend/pick_batch.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/config.h"
#include "common/rules/round_batch.h"

namespace outrider {

// Names one sequence's KV. Never reused while alive.
using SequenceId = int32_t;

// One sequence's share of a forward pass. The spans must outlive the call.
struct ForwardSequence {
  SequenceId sequence = -1;
  // [n], n >= 1: appended behind the sequence's length.
  std::span<const TokenId> tokens;
  // [n], or empty for a chain. parents[i] < i is the node before token i; -1 stands for the last
  // token that the sequence held before this call. A token attends to the sequence and to its
  // ancestors, and its position is the sequence's length plus its depth.
  std::span<const int32_t> parents;
  // Ascending indices into `tokens` whose logits are wanted; may be empty (prefill).
  std::span<const int32_t> logit_rows;
  // Whether its rows of logits are copied to ForwardOutput too. Without, only Decide and Draft read
  // them, where they are.
  bool logits_to_host = true;
};

// A sequence that drafts several tokens in one call.
struct DraftChain {
  SequenceId sequence = -1;
  std::span<const TokenId> tokens;  // [n], n >= 1: appended before the first draw
};

struct ForwardOutput {
  // [rows, vocab_size] float, row-major, in the order of the batch and of its logit_rows, of the
  // sequences that want them on the host. Owned by the model, valid until its next Forward; the
  // caller may overwrite it. If some sequences do not want theirs: not before the Decide or Draft
  // that follows.
  float* logits = nullptr;
  // [.., hidden_size]: last hidden states (after the final norm), if asked for: of all logit_rows.
  // Valid as `logits` is.
  const float* hidden = nullptr;
  int rows = 0;
};

// What a model has beside the rest when its logits are in another memory than the host's (a GPU).
// Thread: the model's owner.
class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  // Feeds the chains' tokens, draws a token of each from the logits that follow, feeds it, and so
  // on, all on the device: `depths` draws a chain, of which the last one is not fed. `draws` holds
  // a chain (AddChain) of as many depths for each, in the same order. `picked`: what was picked and
  // drawn, by depth and then by chain; valid until the next Draft or DraftChains. Waits for the
  // device. Errors are Forward's, and nothing changes on one. REQUIRES: depths >= 1.
  virtual Status DraftChains(std::span<const DraftChain> chains, int depths, const PickBatch& draws,
                             std::span<const PickedRow>* picked) = 0;
  // Since the model was loaded.
  virtual int64_t bytes_to_host() const = 0;
  virtual GraphCounts graph_counts() const = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;

  // Pages are the unit of KV memory.
  virtual int page_tokens() const = 0;
  virtual int total_pages() const = 0;
  virtual int free_pages() const = 0;

  // An empty sequence without pages.
  virtual SequenceId NewSequence() = 0;
  // Makes room for `tokens` tokens in all (the ones held included). kResourceExhausted when the
  // pages are out; nothing changes then.
  virtual Status Reserve(SequenceId sequence, int tokens) = 0;
  // A second sequence with the first `length` tokens of this one. Full pages are shared, the last
  // partial one is copied.
  virtual Result<SequenceId> Fork(SequenceId sequence, int length) = 0;
  // Pages that these sequences hold, each counted once.
  virtual int PagesHeld(std::span<const SequenceId> sequences) const = 0;
  // Tokens held.
  virtual int length(SequenceId sequence) const = 0;

  // Runs all of the batch's tokens and appends them to their sequences (a tree in node order).
  // Takes the pages that Reserve did not. At most max_batch_tokens() tokens; each sequence at most
  // once. kInvalidArgument for ids outside of the vocabulary, a bad tree or more than
  // max_position_embeddings; kResourceExhausted when pages, or memory for the host's rows, are out.
  // Nothing changes on an error.
  virtual Status Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                         ForwardOutput* output) = 0;
  virtual int max_batch_tokens() const = 0;

  // Decides rounds over the logits of the last Forward, where they are: the batch's nodes are the
  // first of its logit rows, in its order; more rows, of prompts, may follow. Once after each
  // Forward. Ids from `allowed` on are never sampled. The result is valid until the next Decide.
  // REQUIRES: drafts are valid as common/spec/draft_tree.h has it.
  virtual Decisions Decide(const RoundBatch& batch, int allowed) = 0;
  // Picks what draft tokens are sampled from out of the logits of the last Forward, where they are
  // (they are overwritten): pick i from logit row i. Waits for the device. Element i of the result
  // is of row i; valid until the next Draft. Once after each Forward, and not after Decide.
  // REQUIRES: a pick for each logit row, no chains (DeviceModel::DraftChains).
  virtual std::span<const PickedRow> Draft(const PickBatch& batch) = 0;
  // nullptr: the logits are in the host's memory.
  virtual DeviceModel* device() { return nullptr; }

  // Keeps of the tokens that the last Forward appended to `sequence` only those of `path`:
  // ascending indices from a root to a node. Moves the path's KV together; nothing else is copied.
  virtual void KeepPath(SequenceId sequence, std::span<const int32_t> path) = 0;
  // Drops all tokens from `length` on. Pages stay reserved.
  virtual void Truncate(SequenceId sequence, int length) = 0;
  // Ends the sequence; its pages go back unless a fork still holds them.
  virtual void Release(SequenceId sequence) = 0;
};

}  // namespace outrider
