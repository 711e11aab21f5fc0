// A Model without weights: the logits are a hash of the tokens that lead to a row, so that one
// wrong token in a sequence's KV, one wrong parent or one stale row shows in every later logit.
// Pages are those of the real KV cache (PageTable), so that leaks and double frees show, too.
//
// Thread: one owner, as for every Model, also for batches() and Logits().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "common/backend/host_picks.h"
#include "common/kv/page_pool.h"
#include "common/kv/page_table.h"
#include "common/model/model.h"
#include "common/rules/host_rounds.h"

namespace outrider {

struct FakeModelOptions {
  uint64_t seed = 1;  // another seed gives another model
  int vocab_size = 32;
  // Tokens on which a row depends: 0 for the whole path, n for the last n (a Markov chain).
  int order = 0;
  float sharpness = 3.f;  // logits are uniform in [0, sharpness)
  int page_tokens = 4;
  int total_pages = 256;
  int max_batch_tokens = 64;
  int max_position_embeddings = 256;
  int hidden_size = 4;
  std::vector<TokenId> eos_token_ids = {};
};

class FakeModel final : public Model, public DeviceModel {
 public:
  explicit FakeModel(FakeModelOptions options);

  const ModelConfig& config() const override { return config_; }
  int page_tokens() const override { return options_.page_tokens; }
  int total_pages() const override { return options_.total_pages; }
  int free_pages() const override { return pool_.free_pages(); }
  SequenceId NewSequence() override;
  int PagesNeeded(SequenceId sequence, int tokens) const override {
    return Get(sequence).table.PagesNeeded(tokens);
  }
  Status Reserve(SequenceId sequence, int tokens) override;
  Result<SequenceId> Fork(SequenceId sequence, int length) override;
  std::span<const int32_t> Pages(SequenceId sequence) const override {
    return Get(sequence).table.pages();
  }
  std::span<const int32_t> page_holders() const override { return pool_.references(); }
  int length(SequenceId sequence) const override;
  Status Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                 ForwardOutput* output) override;
  int max_batch_tokens() const override { return options_.max_batch_tokens; }
  void KeepPath(SequenceId sequence, std::span<const int32_t> path) override;
  void Truncate(SequenceId sequence, int length) override;
  void Release(SequenceId sequence) override;
  DeviceModel* device() override {
    return decide_ == nullptr && draft_device_ == nullptr ? nullptr : this;
  }
  Decisions Decide(const RoundBatch& batch, int allowed) override;
  std::span<const PickedRow> Draft(const PickBatch& batch) override;
  Status DraftChains(std::span<const DraftChain> chains, int depths, const PickBatch& draws,
                     std::span<const PickedRow>* picked) override;
  void CaptureGraphs() override { passes_before_capture_ = static_cast<int>(batches_.size()); }
  // Passes before the last CaptureGraphs; -1: none.
  int passes_before_capture() const { return passes_before_capture_; }
  int64_t bytes_to_host() const override {
    return bytes_to_host_ + (draft_device_ == nullptr ? 0 : draft_device_->bytes_to_host());
  }
  GraphCounts graph_counts() const override { return graph_counts_; }
  Fp8Counts fp8_counts() const override { return {}; }
  void set_graph_counts(const GraphCounts& counts) { graph_counts_ = counts; }

  // The oracle: the logits [vocab_size] after a path of tokens.
  std::vector<float> Logits(std::span<const TokenId> path) const;

  // The arguments of Forward, call by call.
  struct Share {
    SequenceId sequence;
    int context;  // cached tokens before the call
    std::vector<TokenId> tokens;
    std::vector<int32_t> parents;
    std::vector<int32_t> logit_rows;
    bool logits_to_host;
    int chain_depth;  // for a pass of DraftChains; -1: Forward
  };
  const std::vector<std::vector<Share>>& batches() const { return batches_; }
  int sequences() const { return static_cast<int>(sequences_.size()); }
  // Cached tokens, in order (a tree's in node order until KeepPath).
  const std::vector<TokenId>& tokens(SequenceId sequence) const;
  // Called by every Truncate, as a round ends.
  void set_on_truncate(std::function<void()> f) { on_truncate_ = std::move(f); }
  // Called by every Forward with its number of rows: the cost of a pass, for a fake clock.
  void set_on_forward(std::function<void(int rows)> f) { on_forward_ = std::move(f); }
  // Called with every logits row before it is read.
  void set_on_row(std::function<void(std::span<float> row)> f) { on_row_ = std::move(f); }
  // Gives the model a device that verifies rounds: `decide` replaces Decide, with all rows of the
  // last Forward. From then on, rows copied to the host are counted in bytes.
  using DecideFn = std::function<Decisions(const RoundBatch& batch, const LogitRows& rows)>;
  void set_decide(DecideFn decide) { decide_ = std::move(decide); }
  // The same for a device that drafts; chains as in DevicePicks.
  class DraftDevice {
   public:
    virtual ~DraftDevice() = default;
    virtual std::span<const PickedRow> Draft(const PickBatch& batch, float* rows, int vocab) = 0;
    virtual void BeginChains(const PickBatch& batch, float* rows, int vocab) = 0;
    // The sampled tokens, by chain.
    virtual std::span<const TokenId> DrawChains(int depth) = 0;
    virtual std::span<const PickedRow> EndChains() = 0;
    virtual int64_t bytes_to_host() const = 0;
  };
  void set_draft_device(std::shared_ptr<DraftDevice> device) { draft_device_ = std::move(device); }
  const std::shared_ptr<DraftDevice>& draft_device() const { return draft_device_; }
  // The next Forward fails with this status, once.
  void FailNextForward(Status status) { next_failure_ = std::move(status); }

 private:
  struct Sequence {
    std::vector<TokenId> tokens;
    PageTable table;
    // For the last Forward: where its tokens begin, and whether they were a tree.
    int last_begin = 0;
    bool is_tree = false;
  };

  Sequence& Get(SequenceId id);
  const Sequence& Get(SequenceId id) const;
  Status CheckShare(const ForwardSequence& share) const;

  FakeModelOptions options_;
  ModelConfig config_;
  PagePool pool_;
  SequenceId next_id_ = 0;
  std::map<SequenceId, Sequence> sequences_;
  std::vector<std::vector<Share>> batches_;
  std::vector<float> logits_;       // all rows of the last Forward
  std::vector<float> host_logits_;  // those copied to the host
  std::vector<float> hidden_;
  Status next_failure_;
  std::function<void()> on_truncate_;
  std::function<void(int)> on_forward_;
  std::function<void(std::span<float>)> on_row_;
  DecideFn decide_;
  HostRounds host_rounds_;
  HostPicks host_picks_;
  std::shared_ptr<DraftDevice> draft_device_;
  int chain_depth_ = -1;
  int64_t bytes_to_host_ = 0;
  GraphCounts graph_counts_;
  int passes_before_capture_ = -1;
};

}  // namespace outrider
