// Writes small random models as Hugging Face directories, for tests. Weights are scaled so that
// activations keep their size through the layers and logits have a standard deviation of about 1.5:
// the distributions are neither flat nor one-hot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/tensor/tensor.h"
#include "tests/support/quantized_writer.h"

namespace outrider {

enum class Family {
  kLlama,
  kLlama3,
  kMistral,
  kQwen2,
  kQwen3,
  kGemma2,
  kGemma3,
  kOlmo2,
  kGranite,
  kSmolLm3,
  kPhi3,
  kMixtral,
  kQwen3Moe,
  kGptOss
};

// "llama", "llama3", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "olmo2", "granite",
// "smollm3", "phi3", "mixtral", "qwen3moe" or "gptoss".
Result<Family> ParseFamily(const std::string& name);

struct CheckpointOptions {
  Family family = Family::kLlama;
  int vocab_size = 320;
  int hidden_size = 64;
  int intermediate_size = 96;
  int num_layers = 2;
  int num_heads = 4;
  int num_kv_heads = 2;
  int head_dim = 16;
  int max_position_embeddings = 512;
  // For families with a mixture: the number of experts, experts per row, and their size.
  int num_experts = 6;
  int experts_per_token = 2;
  int expert_size = 64;
  int sliding_window = 0;  // 0: none, except for Gemma, where it is 24
  bool tied_embeddings = true;
  bool attention_bias = false;
  bool mlp_bias = false;
  // Writes RoPE as "rope_parameters" (Transformers 5) instead of "rope_theta" and "rope_scaling".
  bool rope_parameters = false;
  // Applied to config.json as a JSON merge patch (RFC 7396).
  std::string config;
  Dtype dtype = Dtype::kBf16;
  StoredAs stored_as = StoredAs::kFloats;  // for the layers' matrices
  // Adds scales for an FP8 KV cache to each layer. config.json mentions them for floats and for
  // compressed-tensors.
  bool kv_scales = false;
  int shards = 1;
  std::vector<TokenId> eos_token_ids = {1};
  uint64_t seed = 1;
  // Adds noise of this size, relative to the weights and with a seed of its own: the result is a
  // drafter that often agrees with the model without noise.
  double noise = 0;
  uint64_t noise_seed = 0;
  // Also writes a byte-level BPE tokenizer.json: "<s>" is 0, "</s>" is 1, the bytes are 2 to 257,
  // and the rest of the vocabulary is pairs of letters. Requires vocab_size >= 258.
  bool tokenizer = false;
  // Tokens of the tokenizer; 0: vocab_size. If fewer than vocab_size, logits rows are padded.
  int tokenizer_tokens = 0;
};

// Creates the directory if necessary and overwrites any model in it. The same options give the same
// bytes on every machine.
Status MakeCheckpoint(const std::filesystem::path& directory, const CheckpointOptions& options);

}  // namespace outrider
