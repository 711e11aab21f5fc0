#include "common/model/layer_stack.h"

#include <algorithm>
#include <utility>

#include "common/model/rope_table.h"

namespace outrider {
namespace {

std::vector<int32_t> WindowsOf(const ModelConfig& config) {
  std::vector<int32_t> windows;
  for (const LayerDescription& layer : config.layers) windows.push_back(layer.attention.window);
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return windows;
}

// The same with the sinks of the weights.
std::vector<AttentionShape> ShapesWithSinks(const ModelConfig& config, const ModelOptions& options,
                                            const Weights& weights) {
  std::vector<AttentionShape> shapes = ShapesOf(config, options);
  for (size_t i = 0; i < shapes.size(); ++i) shapes[i].sinks = FloatsOf(weights.layers[i].sinks);
  return shapes;
}

}  // namespace

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

LayerStack::LayerStack(const ModelConfig* config, const ModelOptions& options, Backend* backend,
                       Weights weights)
    : config_(*config),
      options_(options),
      backend_(*backend),
      weights_(std::move(weights)),
      shapes_(ShapesWithSinks(config_, options, weights_)),
      windows_(WindowsOf(config_)),
      feed_forward_(config, backend) {}

Status LayerStack::Allocate(int pages) {
  OUTRIDER_TRY(AllocateWorkspace());
  OUTRIDER_TRY(feed_forward_.Allocate(options_.max_batch_tokens));

  // No sequence can be longer than all of the pages, whatever the model allows.
  const int64_t slots = int64_t{pages} * options_.page_tokens;
  const int64_t positions = std::min<int64_t>(config_.max_position_embeddings, slots);
  OUTRIDER_TRY(MakeRopeTables(static_cast<int>(positions)));

  const size_t kv_bytes = static_cast<size_t>(slots) *
                          static_cast<size_t>(config_.num_kv_heads * config_.head_dim) *
                          KvTypeBytes(options_.kv);
  for (int i = 0; i < config_.num_layers(); ++i) {
    KvBuffers buffers;
    OUTRIDER_ASSIGN(buffers.keys, backend_.Allocate(kv_bytes));
    OUTRIDER_ASSIGN(buffers.values, backend_.Allocate(kv_bytes));
    const KvScales& scales = weights_.layers[static_cast<size_t>(i)].kv_scales;
    kv_.push_back(
        {buffers.keys->data(), buffers.values->data(), options_.kv, scales.key, scales.value});
    kv_buffers_.push_back(std::move(buffers));
  }
  return Status();
}

Status LayerStack::AllocateWorkspace() {
  const auto rows = static_cast<size_t>(options_.max_batch_tokens);
  const auto hidden = static_cast<size_t>(config_.hidden_size);
  const auto floats = [&](std::unique_ptr<Buffer>* out, size_t width) -> Status {
    OUTRIDER_ASSIGN(*out, backend_.Allocate(rows * width * sizeof(float)));
    return Status();
  };
  OUTRIDER_TRY(floats(&work_.residual, hidden));
  OUTRIDER_TRY(floats(&work_.normed, hidden));
  OUTRIDER_TRY(floats(&work_.qkv, static_cast<size_t>(qkv_width())));
  OUTRIDER_TRY(floats(&work_.attention, static_cast<size_t>(q_width())));
  OUTRIDER_TRY(floats(&work_.chosen_residual, hidden));
  OUTRIDER_TRY(floats(&work_.chosen_attention, static_cast<size_t>(q_width())));
  if (communicator_ != nullptr) {
    OUTRIDER_TRY(
        floats(&work_.own_logits, static_cast<size_t>(weights_.output_head().out_features())));
  }
  return leads() ? floats(&work_.logits, static_cast<size_t>(config_.vocab_size)) : Status();
}

Status LayerStack::MakeRopeTables(int positions) {
  const std::vector<RopeDescription> kinds = DistinctRopes(config_.layers);
  for (const RopeDescription& rope : kinds) {
    const std::vector<float> table = RopeTable(rope, positions);
    if (table.empty()) {  // nothing is rotated, so the table is not read
      rope_tables_.push_back(nullptr);
      continue;
    }
    OUTRIDER_ASSIGN(std::unique_ptr<Buffer> buffer,
                    backend_.Allocate(table.size() * sizeof(float)));
    backend_.CopyIn(buffer->data(), table.data(), table.size() * sizeof(float));
    backend_.Wait();
    rope_tables_.push_back(std::move(buffer));
  }
  for (const LayerDescription& layer : config_.layers) {
    const auto kind = std::find(kinds.begin(), kinds.end(), layer.attention.rope) - kinds.begin();
    ropes_.push_back(FloatsOf(rope_tables_[static_cast<size_t>(kind)]));
  }
  return Status();
}

void LayerStack::RunPass(const BatchLayout& batch) {
  if (DeviceOps* const device = backend_.device(); device != nullptr) {
    device->RunPass(batch, shapes_[0], options_.kv, [&] { Run(batch); });
  } else {
    Run(batch);
  }
}

void LayerStack::Capture(const BatchLayout& batch) {
  backend_.device()->CapturePasses(batch, shapes_[0], options_.kv, [&] { Run(batch); });
}

void LayerStack::Run(const BatchLayout& batch) {
  if (batch.tokens == nullptr) {
    backend_.device()->EmbedDrawn(*weights_.embedding, batch.rows, work_.residual->floats());
  } else {
    backend_.Embed(*weights_.embedding, batch.tokens, batch.rows, work_.residual->floats());
  }
  const int hidden = config_.hidden_size;
  if (config_.embedding_scale != 1.f) {
    backend_.Scale(work_.residual->floats(), batch.rows, hidden, config_.embedding_scale);
  }
  for (int i = 0; i < config_.num_layers(); ++i) RunLayer(i, batch);
  if (batch.logit_row_count > 0) RunHead(batch.logit_row_count);
}

// From the residual stream of the requested rows to their logits.
void LayerStack::RunHead(int rows) {
  const int hidden = config_.hidden_size;
  float* normed = work_.normed->floats();
  backend_.RmsNorm(work_.chosen_residual->floats(), weights_.final_norm->floats(), rows, hidden,
                   hidden, config_.rms_norm_eps, /*accumulate=*/false, normed, Consumers::kAny);
  float* const logits = leads() ? work_.logits->floats() : nullptr;
  float* const own = communicator_ == nullptr ? logits : work_.own_logits->floats();
  backend_.MatMul(weights_.output_head(), normed, rows, nullptr, /*accumulate=*/false, own);
  if (communicator_ != nullptr) {
    communicator_->GatherColumns(own, rows, config_.vocab_size, logits);
  }
  if (!leads()) return;
  if (config_.logit_scale != 1.f) {
    backend_.Scale(logits, rows, config_.vocab_size, config_.logit_scale);
  }
  if (config_.logit_soft_cap > 0) {
    backend_.SoftCap(logits, rows, config_.vocab_size, config_.logit_soft_cap);
  }
}

// The last layer leaves its result in chosen_residual, for the requested rows only: the other rows
// are not needed after its attention.
void LayerStack::RunLayer(int index, const BatchLayout& batch) {
  const auto i = static_cast<size_t>(index);
  const LayerWeights& layer = weights_.layers[i];
  const AttentionShape& shape = shapes_[i];
  const KvLayer& kv = kv_[i];
  float* residual = work_.residual->floats();
  float* attention = work_.attention->floats();
  float* qkv = work_.qkv->floats();
  int rows = batch.rows;

  RunQkv(index, rows);
  HeadNorms norms;
  if (config_.layers[i].attention.qk_norm == QkNorm::kHeads) {
    norms = {layer.q_norm->floats(), layer.k_norm->floats(), config_.rms_norm_eps};
  }
  backend_.RopeAndWriteKv(batch, shape, norms, ropes_[i], qkv, kv);
  const bool last = index + 1 == config_.num_layers();
  if (last && batch.logit_row_count == 0) return;
  backend_.PagedAttention(batch, shape, qkv, kv, attention,
                          last ? Consumers::kAny : Consumers::kProducts);
  if (last) {
    rows = batch.logit_row_count;
    backend_.GatherRows(residual, batch.logit_rows, rows, config_.hidden_size,
                        work_.chosen_residual->floats());
    backend_.GatherRows(attention, batch.logit_rows, rows, q_width(),
                        work_.chosen_attention->floats());
    attention = work_.chosen_attention->floats();
    residual = work_.chosen_residual->floats();
  }
  AddHalf(layer.attention_norm_after, rows, residual, [&](bool accumulate, float* out) {
    backend_.MatMul(*layer.attention_out, attention, rows, FloatsOf(layer.attention_out_bias),
                    accumulate, out);
  });
  const bool mixture = config_.layers[i].mlp.mixture.has_value();
  const float* read =
      Normed(layer.mlp_norm, residual, rows, mixture ? Consumers::kAny : Consumers::kProducts);
  AddHalf(layer.mlp_norm_after, rows, residual, [&](bool accumulate, float* out) {
    feed_forward_.Run(index, layer, read, rows, accumulate, out);
  });
}

// From the residual stream to q, k and v before the rotation and the norms of single heads.
void LayerStack::RunQkv(int index, int rows) {
  const LayerWeights& layer = weights_.layers[static_cast<size_t>(index)];
  const AttentionDescription& described = config_.layers[static_cast<size_t>(index)].attention;
  float* qkv = work_.qkv->floats();
  const float* read =
      Normed(layer.attention_norm, work_.residual->floats(), rows, Consumers::kProducts);
  backend_.MatMul(*layer.qkv, read, rows, FloatsOf(layer.qkv_bias), /*accumulate=*/false, qkv);
  if (described.qk_norm != QkNorm::kProjection) return;
  const auto norm = [&](float* x, Buffer& gain, int heads) {
    backend_.RmsNormHeads(x, gain.floats(), rows, 1, heads * config_.head_dim, qkv_width(),
                          config_.rms_norm_eps);
  };
  norm(qkv, *layer.q_norm, config_.num_heads);
  norm(qkv + q_width(), *layer.k_norm, config_.num_kv_heads);
}

// The input of a half of a layer, from the residual stream. Writes to `normed` if there is a norm.
const float* LayerStack::Normed(const std::unique_ptr<Buffer>& gain, const float* residual,
                                int rows, Consumers consumers) {
  if (gain == nullptr) return residual;
  const int hidden = config_.hidden_size;
  float* normed = work_.normed->floats();
  backend_.RmsNorm(residual, gain->floats(), rows, hidden, hidden, config_.rms_norm_eps,
                   /*accumulate=*/false, normed, consumers);
  return normed;
}

void LayerStack::SumOverRanks(float* values, int rows) {
  if (communicator_ == nullptr) return;
  communicator_->AllReduce(values,
                           static_cast<size_t>(rows) * static_cast<size_t>(config_.hidden_size));
}

// Adds the result of half(accumulate, out) to the residual stream, normalised first if there is a
// norm. Overwrites `normed`. Of several ranks the leading one adds its part to the residual stream;
// the others replace the stream by theirs, so that the sum over ranks is the new stream.
template <class Half>
void LayerStack::AddHalf(const std::unique_ptr<Buffer>& norm_after, int rows, float* residual,
                         const Half& half) {
  if (norm_after == nullptr) {
    half(/*accumulate=*/leads(), residual);
    return SumOverRanks(residual, rows);
  }
  const int hidden = config_.hidden_size;
  float* result = work_.normed->floats();
  half(/*accumulate=*/false, result);
  SumOverRanks(result, rows);
  backend_.RmsNorm(result, norm_after->floats(), rows, hidden, hidden, config_.rms_norm_eps,
                   /*accumulate=*/true, residual, Consumers::kAny);
}

}  // namespace outrider
