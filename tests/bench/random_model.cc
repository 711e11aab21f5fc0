#include "tests/bench/random_model.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

ModelConfig Llama(int layers) {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.vocab_size = 128256;
  config.max_position_embeddings = 131072;
  config.rms_norm_eps = 1e-5f;
  config.layers.resize(static_cast<size_t>(layers));
  for (LayerDescription& layer : config.layers) layer.attention.rope.theta = 500000.f;
  return config;
}

size_t LargestMatrix(const ModelConfig& c) {
  const auto widest = static_cast<size_t>(std::max(
      {c.vocab_size, 2 * c.intermediate_size, (c.num_heads + 2 * c.num_kv_heads) * c.head_dim}));
  return widest * static_cast<size_t>(std::max(c.hidden_size, c.num_heads * c.head_dim));
}

Result<std::unique_ptr<Buffer>> Ones(Backend& backend, int n) {
  const std::vector<float> ones(static_cast<size_t>(n), 1.f);
  OUTRIDER_ASSIGN(auto buffer, backend.Allocate(ones.size() * sizeof(float)));
  backend.CopyIn(buffer->data(), ones.data(), ones.size() * sizeof(float));
  backend.Wait();
  return buffer;
}

}  // namespace

ModelConfig Llama8B() {
  ModelConfig config = Llama(32);
  config.hidden_size = 4096;
  config.intermediate_size = 14336;
  config.num_heads = 32;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  return config;
}

ModelConfig Llama1B() {
  ModelConfig config = Llama(16);
  config.hidden_size = 2048;
  config.intermediate_size = 8192;
  config.num_heads = 32;
  config.num_kv_heads = 8;
  config.head_dim = 64;
  config.tied_embeddings = true;
  return config;
}

ModelConfig TinyTarget() {
  ModelConfig config = Llama(2);
  config.vocab_size = 256;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 32;
  config.max_position_embeddings = 2048;
  return config;
}

ModelConfig TinyDrafter() {
  ModelConfig config = TinyTarget();
  config.layers.resize(1);
  config.tied_embeddings = true;
  return config;
}

RandomWeights::RandomWeights(size_t elements) : bits_(elements) {
  uint64_t state = 1;
  for (uint16_t& bits : bits_) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    // A sign, an exponent of 2^-7 to 2^-6, seven bits of mantissa.
    bits = static_cast<uint16_t>((state >> 48 & 0x8000) | 0x3c00 | (state >> 40 & 0xff));
  }
}

RandomWeights::RandomWeights(const ModelConfig& config) : RandomWeights(LargestMatrix(config)) {}

Result<std::unique_ptr<PackedMatrix>> RandomWeights::Matrix(Backend& backend, int64_t out,
                                                            int64_t in, WeightType type) const {
  OUTRIDER_CHECK(static_cast<size_t>(out * in) <= bits_.size());
  OUTRIDER_ASSIGN(auto packed, backend.Pack({bits_.data(), Dtype::kBf16, {out, in}}, type));
  backend.Wait();
  return packed;
}

Result<Weights> RandomWeights::Make(const ModelConfig& c, Backend& backend, WeightType type) const {
  const int q = c.num_heads * c.head_dim;
  const int qkv = q + 2 * c.num_kv_heads * c.head_dim;
  Weights weights;
  OUTRIDER_ASSIGN(weights.embedding, Matrix(backend, c.vocab_size, c.hidden_size, type));
  if (!c.tied_embeddings) {
    OUTRIDER_ASSIGN(weights.head, Matrix(backend, c.vocab_size, c.hidden_size, type));
  }
  OUTRIDER_ASSIGN(weights.final_norm, Ones(backend, c.hidden_size));
  for (int i = 0; i < c.num_layers(); ++i) {
    LayerWeights layer;
    OUTRIDER_ASSIGN(layer.attention_norm, Ones(backend, c.hidden_size));
    OUTRIDER_ASSIGN(layer.mlp_norm, Ones(backend, c.hidden_size));
    OUTRIDER_ASSIGN(layer.qkv, Matrix(backend, qkv, c.hidden_size, type));
    OUTRIDER_ASSIGN(layer.attention_out, Matrix(backend, c.hidden_size, q, type));
    OUTRIDER_ASSIGN(layer.gate_up, Matrix(backend, 2 * c.intermediate_size, c.hidden_size, type));
    OUTRIDER_ASSIGN(layer.down, Matrix(backend, c.hidden_size, c.intermediate_size, type));
    weights.layers.push_back(std::move(layer));
  }
  return weights;
}

}  // namespace outrider
