// The shape of a dense decoder, as config.json of an HF directory states it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

// RoPE frequencies rescaled for long contexts as Llama 3.1 does ("rope_type": "llama3").
struct Llama3RopeScaling {
  float factor = 1.f;
  float low_freq_factor = 1.f;
  float high_freq_factor = 4.f;
  int original_max_position_embeddings = 0;
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                             // "Qwen3ForCausalLM"
  std::string name;          // the directory's name, for people and metrics
  int vocab_size = 0;        // rows of the embedding and of the logits (may be padded)
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int max_position_embeddings = 0;
  float rms_norm_eps = 1e-6f;
  float rope_theta = 10000.f;
  bool has_rope_scaling = false;
  Llama3RopeScaling rope_scaling;
  bool qkv_bias = false;  // Qwen2
  bool qk_norm = false;   // Qwen3
  bool tied_embeddings = false;
  int sliding_window = 0;              // 0: none (Mistral 7B v0.1: 4096)
  std::vector<TokenId> eos_token_ids;  // of config.json and generation_config.json
  TokenId bos_token_id = -1;
};

// Reads config.json (and generation_config.json where there is one). kUnimplemented names an
// architecture or an option that is not supported, kInvalidArgument a missing or senseless field.
Result<ModelConfig> LoadModelConfig(const std::filesystem::path& directory);

}  // namespace outrider
