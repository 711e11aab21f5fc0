#include "common/model/transformer.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/available_memory.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/kv/page_pool.h"
#include "common/kv/page_table.h"
#include "common/model/layer_stack.h"
#include "common/model/memory_plan.h"
#include "common/model/ragged_batch.h"
#include "common/model/safetensors.h"
#include "common/model/weights.h"

namespace outrider {
namespace {

class Transformer : public Model, public DeviceModel {
 public:
  Transformer(ModelConfig config, const ModelOptions& options, std::unique_ptr<Backend> backend,
              Weights weights, LeadingRank ranks, int pages)
      : config_(std::move(config)),
        options_(options),
        backend_(std::move(backend)),
        ranks_(std::move(ranks)),
        part_(ShardOf(config_, ranks_.shard)),
        layers_(&part_, options, backend_.get(), std::move(weights)),
        pool_(pages) {}

  Status Allocate();

  const ModelConfig& config() const override { return config_; }
  int page_tokens() const override { return options_.page_tokens; }
  int total_pages() const override { return pool_.total_pages(); }
  int free_pages() const override { return pool_.free_pages(); }
  int max_batch_tokens() const override { return options_.max_batch_tokens; }
  Decisions Decide(const RoundBatch& batch, int allowed) override {
    OUTRIDER_CHECK(batch.nodes() <= static_cast<int>(batches_[0].logit_rows().size()));
    in_flight_ = false;
    return backend_->Decide(batch, {layers_.logits(), config_.vocab_size, allowed});
  }
  std::span<const PickedRow> Draft(const PickBatch& batch) override {
    OUTRIDER_CHECK(batch.size() == static_cast<int>(batches_[0].logit_rows().size()));
    in_flight_ = false;
    return backend_->Draft(batch, layers_.logits(), config_.vocab_size);
  }
  DeviceModel* device() override { return backend_->device() == nullptr ? nullptr : this; }
  Status DraftChains(std::span<const DraftChain> chains, int depths, const PickBatch& draws,
                     std::span<const PickedRow>* picked) override;
  void CaptureGraphs() override;
  int64_t bytes_to_host() const override { return backend_->device()->bytes_to_host(); }
  GraphCounts graph_counts() const override { return backend_->device()->graph_counts(); }
  Fp8Counts fp8_counts() const override { return backend_->device()->fp8_counts(); }

  SequenceId NewSequence() override { return Adopt(PageTable(&pool_, options_.page_tokens)); }
  int PagesNeeded(SequenceId sequence, int tokens) const override {
    return Table(sequence).PagesNeeded(tokens);
  }
  Status Reserve(SequenceId sequence, int tokens) override;
  Result<SequenceId> Fork(SequenceId sequence, int length) override;
  std::span<const int32_t> Pages(SequenceId sequence) const override {
    return Table(sequence).pages();
  }
  std::span<const int32_t> page_holders() const override { return pool_.references(); }
  int length(SequenceId sequence) const override { return Table(sequence).length(); }
  Status Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                 ForwardOutput* output) override;
  void KeepPath(SequenceId sequence, std::span<const int32_t> path) override;
  void Truncate(SequenceId sequence, int length) override { Table(sequence).Truncate(length); }
  void Release(SequenceId sequence) override;

 private:
  bool Holds(SequenceId sequence) const {
    return sequence >= 0 && static_cast<size_t>(sequence) < tables_.size() &&
           tables_[static_cast<size_t>(sequence)].has_value();
  }
  const PageTable& Table(SequenceId sequence) const {
    OUTRIDER_CHECK(Holds(sequence));
    return *tables_[static_cast<size_t>(sequence)];
  }
  PageTable& Table(SequenceId sequence) {
    return const_cast<PageTable&>(std::as_const(*this).Table(sequence));
  }
  SequenceId Adopt(PageTable table);
  void FlushCopies();
  // `more` is the number of tokens that each sequence takes after those of the batch.
  Status CheckBatch(std::span<const ForwardSequence> batch, int more);
  // The page of a device's cache that added rows write to.
  int32_t ScratchPage() const { return pool_.total_pages(); }
  // Must be called before the arrays of the last pass are overwritten.
  void WaitForLastPass() {
    if (std::exchange(in_flight_, false)) backend_->Wait();
  }
  void Flatten(std::span<const ForwardSequence> batch, RaggedBatch* flat);
  void Pad(RaggedBatch* flat) const;
  BatchLayout LayoutOf(const RaggedBatch& flat) const;
  void ReadOutput(std::span<const ForwardSequence> batch, bool want_hidden, ForwardOutput* output);
  Status MakeRoomForLogits(std::span<const ForwardSequence> batch);
  int CopyLogits(std::span<const ForwardSequence> batch);

  const ModelConfig config_;
  const ModelOptions options_;
  // Declared before everything that uses its memory, so that it is destroyed last.
  const std::unique_ptr<Backend> backend_;
  const LeadingRank ranks_;
  const ModelConfig part_;  // what layers_ computes
  LayerStack layers_;
  std::unique_ptr<Buffer> host_logits_;  // [host_rows_, vocab]
  size_t host_rows_ = 0;
  std::unique_ptr<Buffer> host_hidden_;  // [max_batch_tokens, hidden]

  PagePool pool_;
  std::vector<std::optional<PageTable>> tables_;  // indexed by SequenceId
  std::vector<SequenceId> free_ids_;
  // The first one belongs to the last Forward; all belong to the last DraftChains, by depth.
  std::vector<RaggedBatch> batches_{1};
  bool in_flight_ = false;  // the last Forward has not been waited for
  std::vector<SlotCopy> copies_;
  std::vector<SequenceId> seen_;  // scratch of CheckBatch
};

Status Transformer::Allocate() {
  if (ranks_.communicator != nullptr) layers_.Join(ranks_.communicator.get());
  const int scratch_pages = backend_->device() == nullptr ? 0 : 1;
  OUTRIDER_TRY(layers_.Allocate(pool_.total_pages() + scratch_pages));
  const auto values =
      static_cast<size_t>(options_.max_batch_tokens) * static_cast<size_t>(config_.hidden_size);
  OUTRIDER_ASSIGN(host_hidden_, backend_->AllocateHost(values * sizeof(float)));
  return Status();
}

SequenceId Transformer::Adopt(PageTable table) {
  if (free_ids_.empty()) {
    free_ids_.push_back(static_cast<SequenceId>(tables_.size()));
    tables_.emplace_back();
  }
  const SequenceId id = free_ids_.back();
  free_ids_.pop_back();
  tables_[static_cast<size_t>(id)] = std::move(table);
  return id;
}

void Transformer::Release(SequenceId sequence) {
  OUTRIDER_CHECK(Holds(sequence));
  tables_[static_cast<size_t>(sequence)].reset();
  free_ids_.push_back(sequence);
}

void Transformer::FlushCopies() {
  if (copies_.empty()) return;
  if (ranks_.followers != nullptr) ranks_.followers->CopyKvSlots(copies_);
  layers_.CopyKvSlots(copies_);
  copies_.clear();
}

Status Transformer::Reserve(SequenceId sequence, int tokens) {
  OUTRIDER_TRY(Table(sequence).Reserve(tokens, &copies_));
  FlushCopies();
  return Status();
}

Result<SequenceId> Transformer::Fork(SequenceId sequence, int length) {
  OUTRIDER_ASSIGN(PageTable fork, Table(sequence).Fork(length, &copies_));
  FlushCopies();
  return Adopt(std::move(fork));
}

void Transformer::KeepPath(SequenceId sequence, std::span<const int32_t> path) {
  Table(sequence).KeepPath(path, &copies_);
  FlushCopies();
}

Status Transformer::CheckBatch(std::span<const ForwardSequence> batch, int more) {
  const BatchLimits limits = {config_.vocab_size, config_.max_position_embeddings};
  size_t rows = 0;
  int64_t pages = 0;
  seen_.clear();
  for (const ForwardSequence& share : batch) {
    if (!Holds(share.sequence)) {
      return InvalidArgument("sequence " + std::to_string(share.sequence) + " does not exist");
    }
    rows += share.tokens.size();
    if (rows > static_cast<size_t>(options_.max_batch_tokens)) {
      return InvalidArgument("a batch of more than " + std::to_string(options_.max_batch_tokens) +
                             " tokens");
    }
    const PageTable& table = Table(share.sequence);
    OUTRIDER_TRY(CheckShare(share, table.length() + more, limits));
    pages += table.PagesNeeded(table.length() + static_cast<int>(share.tokens.size()) + more);
    seen_.push_back(share.sequence);
  }
  std::sort(seen_.begin(), seen_.end());
  const auto twice = std::adjacent_find(seen_.begin(), seen_.end());
  if (twice != seen_.end()) {
    return InvalidArgument("sequence " + std::to_string(*twice) + " occurs twice in a batch");
  }
  if (pages > pool_.free_pages()) {
    return ResourceExhausted("KV pages: the batch needs " + std::to_string(pages) + ", " +
                             std::to_string(pool_.free_pages()) + " of " +
                             std::to_string(pool_.total_pages()) + " are free");
  }
  return Status();
}

Status Transformer::Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                            ForwardOutput* output) {
  *output = {};
  OUTRIDER_TRY(CheckBatch(batch, 0));
  if (batch.empty()) return Status();
  OUTRIDER_TRY(MakeRoomForLogits(batch));
  WaitForLastPass();
  Flatten(batch, &batches_[0]);
  Pad(&batches_[0]);
  FlushCopies();
  const BatchLayout layout = LayoutOf(batches_[0]);
  if (ranks_.followers != nullptr) ranks_.followers->Run(layout);
  layers_.RunPass(layout);
  ReadOutput(batch, want_hidden, output);
  return Status();
}

Status Transformer::DraftChains(std::span<const DraftChain> chains, int depths,
                                const PickBatch& draws, std::span<const PickedRow>* picked) {
  static constexpr int32_t kOnlyRow = 0;
  static constexpr TokenId kDrawn = 0;  // placeholder for the token that only the device knows
  OUTRIDER_CHECK(depths >= 1 && static_cast<size_t>(draws.size()) == chains.size());
  if (ranks_.followers != nullptr) {
    return Unimplemented("chains are drafted on one device, not on several");
  }
  *picked = {};
  std::vector<int32_t> last_rows;
  last_rows.reserve(chains.size());  // spans point into it
  std::vector<ForwardSequence> batch;
  for (const DraftChain& chain : chains) {
    last_rows.push_back(static_cast<int32_t>(chain.tokens.size()) - 1);
    batch.push_back({.sequence = chain.sequence,
                     .tokens = chain.tokens,
                     .parents = {},
                     .logit_rows = {&last_rows.back(), 1},
                     .logits_to_host = false});
  }
  OUTRIDER_TRY(CheckBatch(batch, depths - 1));
  if (batch.empty()) return Status();
  WaitForLastPass();
  batches_.resize(std::max(batches_.size(), static_cast<size_t>(depths)));
  std::vector<BatchLayout> passes;
  for (int depth = 0; depth < depths; ++depth) {
    RaggedBatch& flat = batches_[static_cast<size_t>(depth)];
    Flatten(batch, &flat);
    if (depth == 0) Pad(&flat);  // the others' rows are those of the chains
    passes.push_back(LayoutOf(flat));
    if (depth > 0) passes.back().tokens = nullptr;
    for (ForwardSequence& share : batch) {
      share.tokens = {&kDrawn, 1};
      share.logit_rows = {&kOnlyRow, 1};
    }
  }
  FlushCopies();
  const auto ops = [&](int depth) { layers_.Run(passes[static_cast<size_t>(depth)]); };
  *picked = backend_->device()->RunChains(passes, layers_.first_shape(), options_.kv, draws,
                                          layers_.logits(), config_.vocab_size, ops);
  return Status();
}

// Appends the batch's tokens to their sequences. Copies are deferred to FlushCopies: all of them
// copy earlier contents, because a sequence that has written to a page does not share it.
void Transformer::Flatten(std::span<const ForwardSequence> batch, RaggedBatch* flat) {
  flat->Begin(std::any_of(batch.begin(), batch.end(),
                          [](const ForwardSequence& share) { return !IsChain(share.parents); }));
  for (const ForwardSequence& share : batch) {
    PageTable& table = Table(share.sequence);
    const auto count = static_cast<int>(share.tokens.size());
    // CheckBatch has counted the pages of all sequences together.
    OUTRIDER_CHECK(table.Reserve(table.length() + count, &copies_).ok());
    flat->Add(share, table);
    const bool chain = IsChain(share.parents);
    table.Append(count, chain ? std::span<const int32_t>() : share.parents);
  }
}

// Adds rows so that passes of different sizes are replays of the same graphs.
void Transformer::Pad(RaggedBatch* flat) const {
  DeviceOps* const device = backend_->device();
  if (device == nullptr) return;
  const int rows = std::min(device->PaddedRows(flat->rows()), options_.max_batch_tokens);
  if (rows <= device->max_graph_rows()) flat->Pad(rows, ScratchPage(), options_.page_tokens);
}

void Transformer::CaptureGraphs() {
  DeviceOps& device = *backend_->device();
  const int most = std::min(device.max_graph_rows(), options_.max_batch_tokens);
  std::vector<int> sizes;
  for (int rows = 1; rows <= most; rows = std::min(device.PaddedRows(rows + 1), most)) {
    sizes.push_back(rows);
    if (rows == most) break;
  }
  if (sizes.empty()) return;
  WaitForLastPass();
  const int64_t free_before = device.Memory().free;
  // The largest first, so that working memory does not move.
  for (auto rows = sizes.rbegin(); rows != sizes.rend(); ++rows) {
    batches_[0].Begin(/*has_tree=*/false);
    batches_[0].Pad(*rows, ScratchPage(), options_.page_tokens);
    const BatchLayout layout = LayoutOf(batches_[0]);
    if (ranks_.followers != nullptr) ranks_.followers->Capture(layout);
    layers_.Capture(layout);
  }
  const DeviceMemory memory = device.Memory();
  Log(LogLevel::kInfo, "graphs captured",
      {{"graphs", device.graph_counts().captures},
       {"free_bytes_before", free_before},
       {"free_bytes", memory.free},
       {"total_bytes", memory.total}});
}

BatchLayout Transformer::LayoutOf(const RaggedBatch& flat) const {
  BatchLayout layout = flat.layout();
  layout.windows = layers_.windows();
  return layout;
}

// Host memory, pinned if there is a device. It is allocated on demand, since most rows stay on the
// device, and memory for all rows of the largest batch would be gigabytes.
Status Transformer::MakeRoomForLogits(std::span<const ForwardSequence> batch) {
  constexpr size_t kLeastRows = 16;
  size_t rows = 0;
  for (const ForwardSequence& share : batch) {
    if (share.logits_to_host) rows += share.logit_rows.size();
  }
  if (rows <= host_rows_) return Status();
  rows = std::min(std::bit_ceil(std::max(rows, kLeastRows)),
                  static_cast<size_t>(options_.max_batch_tokens));
  host_logits_.reset();  // before the larger one is allocated
  host_rows_ = 0;
  OUTRIDER_ASSIGN(
      host_logits_,
      backend_->AllocateHost(rows * static_cast<size_t>(config_.vocab_size) * sizeof(float)));
  host_rows_ = rows;
  return Status();
}

// Copies the requested rows to the host, one after another. Returns their number.
int Transformer::CopyLogits(std::span<const ForwardSequence> batch) {
  const auto vocabulary = static_cast<size_t>(config_.vocab_size);
  size_t first = 0, copied = 0;  // in rows
  for (size_t i = 0; i < batch.size();) {
    size_t run = 0;
    for (; i < batch.size() && batch[i].logits_to_host; ++i) run += batch[i].logit_rows.size();
    if (run > 0) {
      backend_->CopyOut(host_logits_->floats() + copied * vocabulary,
                        layers_.logits() + first * vocabulary, run * vocabulary * sizeof(float));
    }
    first += run;
    copied += run;
    for (; i < batch.size() && !batch[i].logits_to_host; ++i) first += batch[i].logit_rows.size();
  }
  return static_cast<int>(copied);
}

void Transformer::ReadOutput(std::span<const ForwardSequence> batch, bool want_hidden,
                             ForwardOutput* output) {
  const auto rows = static_cast<int>(batches_[0].logit_rows().size());
  if (rows == 0) {
    backend_->Wait();
    return;
  }
  output->rows = CopyLogits(batch);
  if (output->rows > 0) output->logits = host_logits_->floats();
  if (want_hidden) {
    const size_t values = static_cast<size_t>(rows) * static_cast<size_t>(config_.hidden_size);
    backend_->CopyOut(host_hidden_->data(), layers_.states(), values * sizeof(float));
    output->hidden = host_hidden_->floats();
  }
  if (output->rows == rows) {
    backend_->Wait();
  } else {
    in_flight_ = true;  // Decide or Draft waits
  }
}

Status CheckOptions(const ModelOptions& options) {
  if (options.page_tokens < 1 || options.page_tokens > 1024) {
    return InvalidArgument("page_tokens is " + std::to_string(options.page_tokens) +
                           ", not within 1 to 1024");
  }
  if (options.max_batch_tokens < 1 || options.max_batch_tokens > 1 << 16) {
    return InvalidArgument("max_batch_tokens is " + std::to_string(options.max_batch_tokens) +
                           ", not within 1 to 65536");
  }
  if (options.kv == KvType::kF16 && options.weights != WeightType::kF16) {
    return InvalidArgument("KV in f16 goes with weights in f16 alone");
  }
  return Status();
}

}  // namespace

Result<LoadedPart> LoadPart(const std::filesystem::path& directory, Backend* backend,
                            const ModelOptions& options, const Shard& shard,
                            const LoadProgress& progress) {
  OUTRIDER_TRY(CheckOptions(options));
  LoadedPart part;
  OUTRIDER_ASSIGN(part.config, LoadModelConfig(directory));
  OUTRIDER_TRY(CheckRanks(part.config, shard.ranks).Annotate(directory.string()));
  const ModelConfig own = ShardOf(part.config, shard);
  for (const AttentionShape& shape : ShapesOf(own, options)) {
    OUTRIDER_TRY(backend->CheckShape(shape).Annotate(directory.string()));
  }
  // Checks the options alone, before anything large is allocated.
  OUTRIDER_TRY(PlanKvPages(own, options, {}).status());
  OUTRIDER_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(directory));
  std::vector<KvScales> kv_scales(own.layers.size());
  if (options.kv == KvType::kFp8) {  // a cache of floats needs none
    OUTRIDER_ASSIGN(kv_scales, LoadKvScales(part.config, checkpoint));
  }
  OUTRIDER_ASSIGN(part.weights,
                  LoadWeights(part.config, checkpoint, options.weights, *backend, progress, shard));
  for (size_t i = 0; i < kv_scales.size(); ++i) part.weights.layers[i].kv_scales = kv_scales[i];
  return part;
}

Result<int> PlanPages(const ModelConfig& config, Backend& backend, const ModelOptions& options,
                      const Shard& shard) {
  const ModelConfig own = ShardOf(config, shard);
  if (DeviceOps* const device = backend.device(); device != nullptr) {
    return PlanKvPages(own, options, device->Memory(), shard, device->max_graph_rows() > 0);
  }
  OUTRIDER_ASSIGN(const int pages, PlanKvPages(own, options, {}));
  // All ranks take host memory, and what they exchange has two places (SharedCommunicator).
  int64_t others = 0;
  if (shard.ranks > 1) {
    others = (shard.ranks - 1) * pages * PageBytes(own, options.page_tokens, options.kv) +
             static_cast<int64_t>(2 * sizeof(float) * static_cast<size_t>(shard.ranks) *
                                  ExchangedFloats(config, options, shard.ranks));
  }
  OUTRIDER_TRY(
      CheckKvFits(own, options, pages, AvailableMemory() - options.promised_bytes - others));
  return pages;
}

Result<std::unique_ptr<Model>> BuildModel(ModelConfig config, Weights weights,
                                          std::unique_ptr<Backend> backend,
                                          const ModelOptions& options, LeadingRank ranks) {
  OUTRIDER_TRY(CheckOptions(options));
  if (options.fp8_activations && backend->device()->fp8_counts().matrices == 0) {
    return InvalidArgument(
        "--fp8-activations: no weights of this model are in FP8 with one scale for an output, a "
        "matrix or a block of 128 x 128 (other blocks, and the experts of a mixture, do not "
        "count); leave the flag out");
  }
  OUTRIDER_ASSIGN(const int pages, PlanPages(config, *backend, options, ranks.shard));
  auto model = std::make_unique<Transformer>(std::move(config), options, std::move(backend),
                                             std::move(weights), std::move(ranks), pages);
  OUTRIDER_TRY(model->Allocate());
  return std::unique_ptr<Model>(std::move(model));
}

Result<std::unique_ptr<Model>> LoadModel(const std::filesystem::path& directory,
                                         std::unique_ptr<Backend> backend,
                                         const ModelOptions& options,
                                         const LoadProgress& progress) {
  OUTRIDER_ASSIGN(LoadedPart part,
                  LoadPart(directory, backend.get(), options, /*shard=*/{}, progress));
  return BuildModel(std::move(part.config), std::move(part.weights), std::move(backend), options);
}

}  // namespace outrider
