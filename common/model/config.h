// A decoder as described by config.json of an HF directory, or by a GGUF file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/layer_description.h"
#include "common/model/quantization.h"

namespace outrider {

struct ModelConfig {
  std::string architecture;  // its name in architectures/architecture.cc
  std::string name;          // the directory's name, for people and metrics
  int vocab_size = 0;        // rows of the embedding and length of a logits row (may be padded)
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int max_position_embeddings = 0;
  float rms_norm_eps = 1e-6f;
  float norm_gain_offset = 0;   // added to every norm's gain of the checkpoint
  float embedding_scale = 1.f;  // factor of the embeddings that the layers read, not of a tied head
  float logit_scale = 1.f;      // factor of logits, before the soft cap
  float logit_soft_cap = 0;  // a logit x becomes logit_soft_cap * tanh(x / logit_soft_cap); 0: none
  bool tied_embeddings = false;
  Quantization quantization;
  std::vector<LayerDescription> layers;
  std::vector<TokenId> eos_token_ids;  // from config.json and generation_config.json

  int num_layers() const { return static_cast<int>(layers.size()); }
};

// Reads config.json (and generation_config.json if there is one), or the metadata of the GGUF file
// that `directory` is or contains (FindGgufModel). kUnimplemented names an unsupported architecture
// or option, kInvalidArgument a missing or invalid field.
Result<ModelConfig> LoadModelConfig(const std::filesystem::path& directory);

}  // namespace outrider
