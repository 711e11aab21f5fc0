// For any config.json and generation_config.json (the input, split at its first zero byte):
// LoadModelConfig rejects it, or the sizes are valid for a model.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/model/config.h"
#include "common/model/rope_table.h"

namespace {

std::filesystem::path MakeDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "outrider-fuzz-XXXXXX").string();
  return mkdtemp(name.data());
}

void Write(const std::filesystem::path& path, const uint8_t* begin, const uint8_t* end) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(begin), end - begin);
}

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path directory = MakeDirectory();
  const uint8_t* end = data + size;
  const uint8_t* cut = std::find(data, end, uint8_t{0});
  Write(directory / "config.json", data, cut);
  std::filesystem::remove(directory / "generation_config.json");
  if (cut != end) Write(directory / "generation_config.json", cut + 1, end);

  const auto config = outrider::LoadModelConfig(directory);
  if (!config.ok()) return 0;
  Require(config->vocab_size > 0 && config->hidden_size > 0 && config->intermediate_size > 0);
  Require(config->num_layers() > 0 && config->max_position_embeddings > 0);
  Require(config->num_kv_heads > 0 && config->num_heads % config->num_kv_heads == 0);
  Require(config->head_dim > 0 && config->head_dim % 2 == 0);
  Require(config->rms_norm_eps > 0 && config->embedding_scale > 0 && config->logit_soft_cap >= 0);
  for (const outrider::LayerDescription& layer : config->layers) {
    Require(layer.attention.window >= 0);
    Require(layer.attention.soft_cap >= 0 && layer.attention.query_scalar >= 0);
    if (!layer.mlp.mixture) continue;
    const outrider::RouterShape& router = layer.mlp.mixture->router;
    Require(router.experts > 0 && router.experts <= outrider::kMaxExperts);
    Require(router.top_k > 0 && router.top_k <= router.experts);
    Require(router.top_k <= outrider::kMaxExpertsOfARow);
    Require(layer.mlp.mixture->intermediate_size > 0);
  }
  for (const outrider::RopeDescription& rope : outrider::DistinctRopes(config->layers)) {
    Require(rope.dims >= 0 && rope.dims <= config->head_dim && rope.dims % 2 == 0);
    Require(rope.attention_factor > 0);
    const std::vector<double> frequencies = outrider::RopeFrequencies(rope);
    Require(frequencies.size() == static_cast<size_t>(rope.dims / 2));
    for (const double frequency : frequencies) Require(std::isfinite(frequency));
  }
  for (const outrider::TokenId id : config->eos_token_ids) {
    Require(id >= 0 && id < config->vocab_size);
  }
  return 0;
}
