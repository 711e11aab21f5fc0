// A model as the services see it: a forward pass over a ragged batch of sequences, each with its
// own new tokens (a chain or a tree), on top of a paged KV cache. The interface does not expose
// where the memory is: verification and drafting read the logits where they are, and logits are
// copied to the host only for callers that ask for them.
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

// Identifies one sequence's KV. Not reused while the sequence exists.
using SequenceId = int32_t;

// One sequence's part of a forward pass. The spans must outlive the call.
struct ForwardSequence {
  SequenceId sequence = -1;
  // [n], n >= 1: appended after the sequence's tokens.
  std::span<const TokenId> tokens;
  // [n], or empty for a chain. parents[i] < i is the parent of token i; -1 is the last token that
  // the sequence had before this call. A token attends to the sequence and to its ancestors, and
  // its position is the sequence's length plus its depth.
  std::span<const int32_t> parents;
  // Ascending indices into `tokens` whose logits are requested; may be empty (prefill).
  std::span<const int32_t> logit_rows;
  // Whether the logits rows are also copied to ForwardOutput. If not, only Decide and Draft read
  // them, where they are.
  bool logits_to_host = true;
};

// A sequence that drafts several tokens in one call.
struct DraftChain {
  SequenceId sequence = -1;
  std::span<const TokenId> tokens;  // [n], n >= 1: appended before the first draft token
};

struct ForwardOutput {
  // [rows, vocab_size] float, row-major, in the order of the batch and of its logit_rows, for the
  // sequences with logits_to_host. Owned by the model and valid until its next Forward; the caller
  // may overwrite it. If some sequences do not copy theirs, it is valid only after the Decide or
  // Draft that follows.
  float* logits = nullptr;
  // [.., hidden_size]: last hidden states (after the final norm) of all logit_rows, if requested.
  // Valid when `logits` is.
  const float* hidden = nullptr;
  int rows = 0;
};

// What a model offers in addition when its logits are in device memory (a GPU).
//
// Thread: the model's owner.
class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  // Runs the chains' tokens, samples one token per chain from the resulting logits, runs it, and so
  // on, entirely on the device: `depths` tokens per chain, of which the last is not run. `draws`
  // has a chain (AddChain) of that depth for each, in the same order. `picked` is set to what was
  // picked and sampled, by depth and then by chain; valid until the next Draft or DraftChains.
  // Waits for the device. Errors are those of Forward, and nothing changes on one. REQUIRES: depths
  // >= 1.
  virtual Status DraftChains(std::span<const DraftChain> chains, int depths, const PickBatch& draws,
                             std::span<const PickedRow>* picked) = 0;
  // Captures the graphs of all passes at once, so that no request has to wait for one. To be called
  // after the passes that make working memory grow; changes nothing if there are no graphs.
  virtual void CaptureGraphs() = 0;
  // Counts since the model was loaded.
  virtual int64_t bytes_to_host() const = 0;
  virtual GraphCounts graph_counts() const = 0;
  virtual Fp8Counts fp8_counts() const = 0;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;

  // Pages are the unit of KV memory.
  virtual int page_tokens() const = 0;
  virtual int total_pages() const = 0;
  virtual int free_pages() const = 0;

  // Creates an empty sequence without pages.
  virtual SequenceId NewSequence() = 0;
  // Pages that Reserve(sequence, tokens) would take.
  virtual int PagesNeeded(SequenceId sequence, int tokens) const = 0;
  // Makes room for `tokens` tokens in total (including the cached ones). kResourceExhausted when
  // there are not enough pages; nothing changes then.
  virtual Status Reserve(SequenceId sequence, int tokens) = 0;
  // Creates a second sequence with the first `length` tokens of this one. Full pages are shared,
  // the last partial one is copied.
  virtual Result<SequenceId> Fork(SequenceId sequence, int length) = 0;
  // Indices of the sequence's pages, in the order of its tokens; below total_pages(). Valid until
  // the sequence changes.
  virtual std::span<const int32_t> Pages(SequenceId sequence) const = 0;
  // [total_pages()]: the number of sequences that hold each page. Always current.
  virtual std::span<const int32_t> page_holders() const = 0;
  // Cached tokens.
  virtual int length(SequenceId sequence) const = 0;

  // Runs all of the batch's tokens and appends them to their sequences (trees in node order). Takes
  // pages that were not reserved. At most max_batch_tokens() tokens, and each sequence at most
  // once. kInvalidArgument for ids outside the vocabulary, a bad tree or more tokens than
  // max_position_embeddings; kResourceExhausted when out of pages, or of memory for the host's
  // rows. Nothing changes on an error. On a device it only starts the pass if some logits rows stay
  // there; otherwise it waits for its end.
  virtual Status Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                         ForwardOutput* output) = 0;
  virtual int max_batch_tokens() const = 0;

  // Verifies rounds against the logits of the last Forward, where they are: the batch's nodes are
  // the first of its logits rows, in order; more rows, of prompts, may follow. At most once after
  // each Forward. Ids from `allowed` on are never sampled. The result is valid until the next
  // Decide. REQUIRES: drafts are valid as defined in common/spec/draft_tree.h.
  virtual Decisions Decide(const RoundBatch& batch, int allowed) = 0;
  // Picks the entries from which draft tokens are sampled, from the logits of the last Forward
  // where they are (and overwrites them): pick i reads logits row i. Waits for the device. Element
  // i of the result belongs to row i; valid until the next Draft. At most once after each Forward,
  // and not after Decide. REQUIRES: one pick per logits row, no chains (DeviceModel::DraftChains).
  virtual std::span<const PickedRow> Draft(const PickBatch& batch) = 0;
  // nullptr: the logits are in host memory.
  virtual DeviceModel* device() { return nullptr; }

  // Of the tokens that the last Forward appended to `sequence`, keeps only those of `path`:
  // ascending indices from a root to a node. Compacts the path's KV; nothing else is copied.
  virtual void KeepPath(SequenceId sequence, std::span<const int32_t> path) = 0;
  // Drops all tokens from `length` on. Pages stay reserved.
  virtual void Truncate(SequenceId sequence, int length) = 0;
  // Ends the sequence; pages that no fork shares become free.
  virtual void Release(SequenceId sequence) = 0;
};

}  // namespace outrider
