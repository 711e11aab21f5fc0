#include "common/model/transformer.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/available_memory.h"
#include "common/base/check.h"
#include "common/kv/page_pool.h"
#include "common/kv/page_table.h"
#include "common/model/memory_plan.h"
#include "common/model/ragged_batch.h"
#include "common/model/rope_table.h"
#include "common/model/safetensors.h"
#include "common/model/weights.h"

namespace outrider {
namespace {

// Activations of one batch; `rows` stands for max_batch_tokens.
struct Workspace {
  std::unique_ptr<Buffer> residual;   // [rows, hidden]
  std::unique_ptr<Buffer> normed;     // [rows, hidden]
  std::unique_ptr<Buffer> qkv;        // [rows, (heads + 2 kv_heads) * head_dim]
  std::unique_ptr<Buffer> attention;  // [rows, heads * head_dim]
  std::unique_ptr<Buffer> gate_up;    // [rows, 2 * intermediate]
  std::unique_ptr<Buffer> mlp;        // [rows, intermediate]
  // Of the rows whose logits are wanted:
  std::unique_ptr<Buffer> chosen_residual;   // [rows, hidden]
  std::unique_ptr<Buffer> chosen_attention;  // [rows, heads * head_dim]
  std::unique_ptr<Buffer> logits;            // [rows, vocab]
};

// Of a buffer that may be null.
const float* FloatsOf(const std::unique_ptr<Buffer>& buffer) {
  return buffer == nullptr ? nullptr : buffer->floats();
}

struct KvBuffers {
  std::unique_ptr<Buffer> keys, values;
};

// Of the attention of each layer.
std::vector<AttentionShape> ShapesOf(const ModelConfig& config, const ModelOptions& options) {
  std::vector<AttentionShape> shapes;
  for (const LayerDescription& layer : config.layers) {
    shapes.push_back({.num_heads = config.num_heads,
                      .num_kv_heads = config.num_kv_heads,
                      .head_dim = config.head_dim,
                      .page_tokens = options.page_tokens,
                      .sliding_window = layer.attention.window,
                      .soft_cap = layer.attention.soft_cap,
                      .query_scalar = layer.attention.query_scalar,
                      .unrotated = config.head_dim - layer.attention.rope.dims});
  }
  return shapes;
}

std::vector<int32_t> WindowsOf(const ModelConfig& config) {
  std::vector<int32_t> windows;
  for (const LayerDescription& layer : config.layers) windows.push_back(layer.attention.window);
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return windows;
}

class Transformer : public Model, public DeviceModel {
 public:
  Transformer(ModelConfig config, const ModelOptions& options, std::unique_ptr<Backend> backend,
              Weights weights, int pages)
      : config_(std::move(config)),
        options_(options),
        shapes_(ShapesOf(config_, options)),
        windows_(WindowsOf(config_)),
        backend_(std::move(backend)),
        weights_(std::move(weights)),
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
    return backend_->Decide(batch, {work_.logits->floats(), config_.vocab_size, allowed});
  }
  std::span<const PickedRow> Draft(const PickBatch& batch) override {
    OUTRIDER_CHECK(batch.size() == static_cast<int>(batches_[0].logit_rows().size()));
    in_flight_ = false;
    return backend_->Draft(batch, work_.logits->floats(), config_.vocab_size);
  }
  DeviceModel* device() override { return backend_->device() == nullptr ? nullptr : this; }
  Status DraftChains(std::span<const DraftChain> chains, int depths, const PickBatch& draws,
                     std::span<const PickedRow>* picked) override;
  int64_t bytes_to_host() const override { return backend_->device()->bytes_to_host(); }
  GraphCounts graph_counts() const override { return backend_->device()->graph_counts(); }

  SequenceId NewSequence() override { return Adopt(PageTable(&pool_, options_.page_tokens)); }
  Status Reserve(SequenceId sequence, int tokens) override;
  Result<SequenceId> Fork(SequenceId sequence, int length) override;
  int PagesHeld(std::span<const SequenceId> sequences) const override;
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
  Status MakeRopeTables(int positions);
  SequenceId Adopt(PageTable table);
  void CarryOutCopies();
  // `more`: tokens that each sequence takes after those of the batch.
  Status CheckBatch(std::span<const ForwardSequence> batch, int more);
  // Before its arrays are written again.
  void WaitForLastPass() {
    if (std::exchange(in_flight_, false)) backend_->Wait();
  }
  void Flatten(std::span<const ForwardSequence> batch, RaggedBatch* flat);
  BatchLayout LayoutOf(const RaggedBatch& flat) const;
  void RunLayers(const BatchLayout& batch, std::span<const int32_t> logit_rows);
  void RunLayer(int index, const BatchLayout& batch, std::span<const int32_t> logit_rows);
  void RunQkv(int index, int rows);
  void RunMlp(int index, int rows, float* residual);
  const float* Normed(const std::unique_ptr<Buffer>& gain, const float* residual, int rows);
  void AddProduct(const PackedMatrix& w, const std::unique_ptr<Buffer>& bias, const float* x,
                  int rows, const std::unique_ptr<Buffer>& norm_after, float* residual);
  void ReadOutput(std::span<const ForwardSequence> batch, bool want_hidden, ForwardOutput* output);
  Status MakeRoomForLogits(std::span<const ForwardSequence> batch);
  int CopyLogits(std::span<const ForwardSequence> batch);

  int q_width() const { return config_.num_heads * config_.head_dim; }
  int qkv_width() const {
    return (config_.num_heads + 2 * config_.num_kv_heads) * config_.head_dim;
  }

  const ModelConfig config_;
  const ModelOptions options_;
  const std::vector<AttentionShape> shapes_;  // by layer
  const std::vector<int32_t> windows_;        // of all layers, each once
  // Before what holds its memory: destroyed last.
  const std::unique_ptr<Backend> backend_;
  const Weights weights_;
  std::vector<KvBuffers> kv_buffers_;
  std::vector<KvLayer> kv_;                           // views of kv_buffers_
  std::vector<std::unique_ptr<Buffer>> rope_tables_;  // one of each kind; null: no rotation
  std::vector<const float*> ropes_;                   // by layer, into rope_tables_
  Workspace work_;
  std::unique_ptr<Buffer> host_logits_;  // [host_rows_, vocab]
  size_t host_rows_ = 0;
  std::unique_ptr<Buffer> host_hidden_;  // [max_batch_tokens, hidden]

  PagePool pool_;
  std::vector<std::optional<PageTable>> tables_;  // indexed by SequenceId
  std::vector<SequenceId> free_ids_;
  // Of the last Forward the first one; of the last DraftChains by depth.
  std::vector<RaggedBatch> batches_{1};
  bool in_flight_ = false;  // the last Forward was not waited for
  std::vector<SlotCopy> copies_;
  std::vector<SequenceId> seen_;  // scratch of CheckBatch
};

Status Transformer::Allocate() {
  const auto rows = static_cast<size_t>(options_.max_batch_tokens);
  const auto hidden = static_cast<size_t>(config_.hidden_size);
  const auto vocabulary = static_cast<size_t>(config_.vocab_size);
  const auto floats = [&](std::unique_ptr<Buffer>* out, size_t width) -> Status {
    OUTRIDER_ASSIGN(*out, backend_->Allocate(rows * width * sizeof(float)));
    return Status();
  };
  OUTRIDER_TRY(floats(&work_.residual, hidden));
  OUTRIDER_TRY(floats(&work_.normed, hidden));
  OUTRIDER_TRY(floats(&work_.qkv, static_cast<size_t>(qkv_width())));
  OUTRIDER_TRY(floats(&work_.attention, static_cast<size_t>(q_width())));
  OUTRIDER_TRY(floats(&work_.gate_up, 2 * static_cast<size_t>(config_.intermediate_size)));
  OUTRIDER_TRY(floats(&work_.mlp, static_cast<size_t>(config_.intermediate_size)));
  OUTRIDER_TRY(floats(&work_.chosen_residual, hidden));
  OUTRIDER_TRY(floats(&work_.chosen_attention, static_cast<size_t>(q_width())));
  OUTRIDER_TRY(floats(&work_.logits, vocabulary));
  OUTRIDER_ASSIGN(host_hidden_, backend_->AllocateHost(rows * hidden * sizeof(float)));

  // No sequence can grow past all of the pages, whatever the model allows.
  const int64_t slots = int64_t{pool_.total_pages()} * options_.page_tokens;
  const int64_t positions = std::min<int64_t>(config_.max_position_embeddings, slots);
  OUTRIDER_TRY(MakeRopeTables(static_cast<int>(positions)));

  const size_t kv_bytes = static_cast<size_t>(slots) *
                          static_cast<size_t>(config_.num_kv_heads * config_.head_dim) *
                          DtypeBytes(options_.kv);
  for (int i = 0; i < config_.num_layers(); ++i) {
    KvBuffers buffers;
    OUTRIDER_ASSIGN(buffers.keys, backend_->Allocate(kv_bytes));
    OUTRIDER_ASSIGN(buffers.values, backend_->Allocate(kv_bytes));
    kv_.push_back({buffers.keys->data(), buffers.values->data(), options_.kv});
    kv_buffers_.push_back(std::move(buffers));
  }
  return Status();
}

Status Transformer::MakeRopeTables(int positions) {
  const std::vector<RopeDescription> kinds = DistinctRopes(config_.layers);
  for (const RopeDescription& rope : kinds) {
    const std::vector<float> table = RopeTable(rope, positions);
    if (table.empty()) {  // nothing is rotated, so nothing is read
      rope_tables_.push_back(nullptr);
      continue;
    }
    OUTRIDER_ASSIGN(std::unique_ptr<Buffer> buffer,
                    backend_->Allocate(table.size() * sizeof(float)));
    backend_->CopyIn(buffer->data(), table.data(), table.size() * sizeof(float));
    backend_->Wait();
    rope_tables_.push_back(std::move(buffer));
  }
  for (const LayerDescription& layer : config_.layers) {
    const auto kind = std::find(kinds.begin(), kinds.end(), layer.attention.rope) - kinds.begin();
    ropes_.push_back(FloatsOf(rope_tables_[static_cast<size_t>(kind)]));
  }
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

int Transformer::PagesHeld(std::span<const SequenceId> sequences) const {
  std::vector<bool> held(static_cast<size_t>(pool_.total_pages()));
  for (const SequenceId sequence : sequences) {
    for (const int32_t page : Table(sequence).pages()) held[static_cast<size_t>(page)] = true;
  }
  return static_cast<int>(std::count(held.begin(), held.end(), true));
}

void Transformer::Release(SequenceId sequence) {
  OUTRIDER_CHECK(Holds(sequence));
  tables_[static_cast<size_t>(sequence)].reset();
  free_ids_.push_back(sequence);
}

void Transformer::CarryOutCopies() {
  if (!copies_.empty()) backend_->CopyKvSlots(kv_, shapes_[0], copies_);
  copies_.clear();
}

Status Transformer::Reserve(SequenceId sequence, int tokens) {
  OUTRIDER_TRY(Table(sequence).Reserve(tokens, &copies_));
  CarryOutCopies();
  return Status();
}

Result<SequenceId> Transformer::Fork(SequenceId sequence, int length) {
  OUTRIDER_ASSIGN(PageTable fork, Table(sequence).Fork(length, &copies_));
  CarryOutCopies();
  return Adopt(std::move(fork));
}

void Transformer::KeepPath(SequenceId sequence, std::span<const int32_t> path) {
  Table(sequence).KeepPath(path, &copies_);
  CarryOutCopies();
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
  CarryOutCopies();
  const BatchLayout layout = LayoutOf(batches_[0]);
  const auto ops = [&] { RunLayers(layout, batches_[0].logit_rows()); };
  if (DeviceOps* const device = backend_->device(); device != nullptr) {
    device->RunPass(layout, shapes_[0], options_.kv, ops);
  } else {
    ops();
  }
  ReadOutput(batch, want_hidden, output);
  return Status();
}

Status Transformer::DraftChains(std::span<const DraftChain> chains, int depths,
                                const PickBatch& draws, std::span<const PickedRow>* picked) {
  static constexpr int32_t kOnlyRow = 0;
  static constexpr TokenId kDrawn = 0;  // stands for the token that only the device knows
  OUTRIDER_CHECK(depths >= 1 && static_cast<size_t>(draws.size()) == chains.size());
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
    passes.push_back(LayoutOf(flat));
    if (depth > 0) passes.back().tokens = nullptr;
    for (ForwardSequence& share : batch) {
      share.tokens = {&kDrawn, 1};
      share.logit_rows = {&kOnlyRow, 1};
    }
  }
  CarryOutCopies();
  const auto ops = [&](int depth) {
    const auto at = static_cast<size_t>(depth);
    RunLayers(passes[at], batches_[at].logit_rows());
  };
  *picked = backend_->device()->RunChains(passes, shapes_[0], options_.kv, draws,
                                          work_.logits->floats(), config_.vocab_size, ops);
  return Status();
}

// The batch's tokens become the sequences' own. Copies wait for CarryOutCopies: all of them are of
// what stood before, as a sequence that has written to a page shares it with nobody.
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

BatchLayout Transformer::LayoutOf(const RaggedBatch& flat) const {
  BatchLayout layout = flat.layout();
  layout.windows = windows_;
  return layout;
}

// Everything from the tokens, which the device has drawn where the batch has none, to the logits of
// the wanted rows.
void Transformer::RunLayers(const BatchLayout& batch, std::span<const int32_t> logit_rows) {
  if (batch.tokens == nullptr) {
    backend_->device()->EmbedDrawn(*weights_.embedding, batch.rows, work_.residual->floats());
  } else {
    backend_->Embed(*weights_.embedding, batch.tokens, batch.rows, work_.residual->floats());
  }
  const int hidden = config_.hidden_size;
  if (config_.embedding_scale != 1.f) {
    backend_->Scale(work_.residual->floats(), batch.rows, hidden, config_.embedding_scale);
  }
  for (int i = 0; i < config_.num_layers(); ++i) RunLayer(i, batch, logit_rows);
  const auto rows = static_cast<int>(logit_rows.size());
  if (rows == 0) return;
  float* normed = work_.normed->floats();
  float* logits = work_.logits->floats();
  backend_->RmsNorm(work_.chosen_residual->floats(), weights_.final_norm->floats(), rows, hidden,
                    hidden, config_.rms_norm_eps, /*accumulate=*/false, normed);
  backend_->MatMul(weights_.output_head(), normed, rows, nullptr, /*accumulate=*/false, logits);
  if (config_.logit_scale != 1.f) {
    backend_->Scale(logits, rows, config_.vocab_size, config_.logit_scale);
  }
  if (config_.logit_soft_cap > 0) {
    backend_->SoftCap(logits, rows, config_.vocab_size, config_.logit_soft_cap);
  }
}

// The last layer leaves its result in chosen_residual, of the wanted rows only: no other row is
// looked at after its attention.
void Transformer::RunLayer(int index, const BatchLayout& batch,
                           std::span<const int32_t> logit_rows) {
  const auto at = static_cast<size_t>(index);
  const LayerWeights& layer = weights_.layers[at];
  const AttentionShape& shape = shapes_[at];
  const KvLayer& kv = kv_[at];
  float* residual = work_.residual->floats();
  float* attention = work_.attention->floats();
  float* qkv = work_.qkv->floats();
  int rows = batch.rows;

  RunQkv(index, rows);
  backend_->RopeAndWriteKv(batch, shape, ropes_[at], qkv, kv);
  const bool last = index + 1 == config_.num_layers();
  if (last && logit_rows.empty()) return;
  backend_->PagedAttention(batch, shape, qkv, kv, attention);
  if (last) {
    rows = static_cast<int>(logit_rows.size());
    backend_->GatherRows(residual, logit_rows.data(), rows, config_.hidden_size,
                         work_.chosen_residual->floats());
    backend_->GatherRows(attention, logit_rows.data(), rows, q_width(),
                         work_.chosen_attention->floats());
    attention = work_.chosen_attention->floats();
    residual = work_.chosen_residual->floats();
  }
  AddProduct(*layer.attention_out, layer.attention_out_bias, attention, rows,
             layer.attention_norm_after, residual);
  RunMlp(index, rows, residual);
}

// From the residual stream to the q, k and v that are rotated next.
void Transformer::RunQkv(int index, int rows) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const AttentionDescription& described = config_.layers[static_cast<size_t>(index)].attention;
  float* qkv = work_.qkv->floats();
  backend_->MatMul(*layer.qkv, Normed(layer.attention_norm, work_.residual->floats(), rows), rows,
                   FloatsOf(layer.qkv_bias), /*accumulate=*/false, qkv);
  const auto norm = [&](float* x, Buffer& gain, int heads) {
    const bool apart = described.qk_norm == QkNorm::kHeads;
    const int runs = apart ? heads : 1;
    backend_->RmsNormHeads(x, gain.floats(), rows, runs, heads / runs * config_.head_dim,
                           qkv_width(), config_.rms_norm_eps);
  };
  if (described.qk_norm == QkNorm::kNone) return;
  norm(qkv, *layer.q_norm, config_.num_heads);
  norm(qkv + q_width(), *layer.k_norm, config_.num_kv_heads);
}

// What a half of a layer reads of the residual stream. Writes to `normed` where there is a norm.
const float* Transformer::Normed(const std::unique_ptr<Buffer>& gain, const float* residual,
                                 int rows) {
  if (gain == nullptr) return residual;
  const int hidden = config_.hidden_size;
  float* normed = work_.normed->floats();
  backend_->RmsNorm(residual, gain->floats(), rows, hidden, hidden, config_.rms_norm_eps,
                    /*accumulate=*/false, normed);
  return normed;
}

void Transformer::RunMlp(int index, int rows, float* residual) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const MlpDescription& described = config_.layers[static_cast<size_t>(index)].mlp;
  backend_->MatMul(*layer.gate_up, Normed(layer.mlp_norm, residual, rows), rows,
                   FloatsOf(layer.gate_up_bias), /*accumulate=*/false, work_.gate_up->floats());
  backend_->Glu(described.activation, work_.gate_up->floats(), rows, config_.intermediate_size,
                work_.mlp->floats());
  AddProduct(*layer.down, layer.down_bias, work_.mlp->floats(), rows, layer.mlp_norm_after,
             residual);
}

// residual += w x + bias, normalised before that where there is a norm. Overwrites `normed`.
void Transformer::AddProduct(const PackedMatrix& w, const std::unique_ptr<Buffer>& bias,
                             const float* x, int rows, const std::unique_ptr<Buffer>& norm_after,
                             float* residual) {
  if (norm_after == nullptr) {
    backend_->MatMul(w, x, rows, FloatsOf(bias), /*accumulate=*/true, residual);
    return;
  }
  const int hidden = config_.hidden_size;
  float* result = work_.normed->floats();
  backend_->MatMul(w, x, rows, FloatsOf(bias), /*accumulate=*/false, result);
  backend_->RmsNorm(result, norm_after->floats(), rows, hidden, hidden, config_.rms_norm_eps,
                    /*accumulate=*/true, residual);
}

// On the host, pinned where there is a device: taken as it is needed, as most rows of a device stay
// there, and all of the largest batch would be gigabytes.
Status Transformer::MakeRoomForLogits(std::span<const ForwardSequence> batch) {
  constexpr size_t kLeastRows = 16;
  size_t rows = 0;
  for (const ForwardSequence& share : batch) {
    if (share.logits_to_host) rows += share.logit_rows.size();
  }
  if (rows <= host_rows_) return Status();
  rows = std::min(std::bit_ceil(std::max(rows, kLeastRows)),
                  static_cast<size_t>(options_.max_batch_tokens));
  host_logits_.reset();  // before the larger one is taken
  host_rows_ = 0;
  OUTRIDER_ASSIGN(
      host_logits_,
      backend_->AllocateHost(rows * static_cast<size_t>(config_.vocab_size) * sizeof(float)));
  host_rows_ = rows;
  return Status();
}

// Brings the rows that are wanted there to the host, one after another; how many.
int Transformer::CopyLogits(std::span<const ForwardSequence> batch) {
  const auto vocabulary = static_cast<size_t>(config_.vocab_size);
  size_t first = 0, copied = 0;  // rows
  for (size_t i = 0; i < batch.size();) {
    size_t run = 0;
    for (; i < batch.size() && batch[i].logits_to_host; ++i) run += batch[i].logit_rows.size();
    if (run > 0) {
      backend_->CopyOut(host_logits_->floats() + copied * vocabulary,
                        work_.logits->floats() + first * vocabulary,
                        run * vocabulary * sizeof(float));
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
    backend_->CopyOut(host_hidden_->data(), work_.normed->data(), values * sizeof(float));
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
  if (options.kv == Dtype::kF16 && options.weights != WeightType::kF16) {
    return InvalidArgument("KV in f16 goes with weights in f16 alone");
  }
  return Status();
}

// All zeros: nothing to plan with.
DeviceMemory MemoryOf(Backend& backend) {
  DeviceOps* const device = backend.device();
  return device == nullptr ? DeviceMemory() : device->Memory();
}

}  // namespace

Result<std::unique_ptr<Model>> BuildModel(ModelConfig config, Weights weights,
                                          std::unique_ptr<Backend> backend,
                                          const ModelOptions& options) {
  OUTRIDER_TRY(CheckOptions(options));
  OUTRIDER_ASSIGN(const int pages, PlanKvPages(config, options, MemoryOf(*backend)));
  if (backend->device() == nullptr) {
    OUTRIDER_TRY(CheckKvFits(config, options, pages, AvailableMemory() - options.promised_bytes));
  }
  auto model = std::make_unique<Transformer>(std::move(config), options, std::move(backend),
                                             std::move(weights), pages);
  OUTRIDER_TRY(model->Allocate());
  return std::unique_ptr<Model>(std::move(model));
}

Result<std::unique_ptr<Model>> LoadModel(const std::filesystem::path& directory,
                                         std::unique_ptr<Backend> backend,
                                         const ModelOptions& options,
                                         const LoadProgress& progress) {
  OUTRIDER_TRY(CheckOptions(options));
  OUTRIDER_ASSIGN(ModelConfig config, LoadModelConfig(directory));
  for (const AttentionShape& shape : ShapesOf(config, options)) {
    OUTRIDER_TRY(backend->CheckShape(shape).Annotate(directory.string()));
  }
  // Before anything large is taken: what the options alone make wrong.
  OUTRIDER_TRY(PlanKvPages(config, options, {}).status());
  OUTRIDER_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(directory));
  OUTRIDER_ASSIGN(Weights weights,
                  LoadWeights(config, checkpoint, options.weights, *backend, progress));
  return BuildModel(std::move(config), std::move(weights), std::move(backend), options);
}

}  // namespace outrider
