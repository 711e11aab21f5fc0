#include "common/model/architectures/architecture.h"

namespace outrider {
namespace {

// The defaults are those of Transformers.
constexpr Architecture kArchitectures[] = {
    {.name = "LlamaForCausalLM", .describe = DescribeLlama, .max_position_embeddings = 2048},
    {.name = "MistralForCausalLM", .describe = DescribeMistral, .max_position_embeddings = 131072},
    {.name = "Qwen2ForCausalLM", .describe = DescribeQwen2, .max_position_embeddings = 32768},
    {.name = "Qwen3ForCausalLM",
     .describe = DescribeQwen3,
     .head_dim = 128,
     .max_position_embeddings = 32768},
    {.name = "Gemma2ForCausalLM",
     .describe = DescribeGemma2,
     .head_dim = 256,
     .max_position_embeddings = 8192},
    {.name = "Gemma3ForCausalLM",
     .describe = DescribeGemma3,
     .head_dim = 256,
     .max_position_embeddings = 131072},
    {.name = "Olmo2ForCausalLM",
     .describe = DescribeOlmo2,
     .rms_norm_eps = 1e-5f,
     .max_position_embeddings = 2048},
    {.name = "GraniteForCausalLM", .describe = DescribeGranite, .max_position_embeddings = 2048},
    {.name = "SmolLM3ForCausalLM", .describe = DescribeSmolLm3, .max_position_embeddings = 32768},
    {.name = "Phi3ForCausalLM",
     .describe = DescribePhi3,
     .rms_norm_eps = 1e-5f,
     .max_position_embeddings = 4096},
    {.name = "MixtralForCausalLM",
     .describe = DescribeMixtral,
     .rms_norm_eps = 1e-5f,
     .max_position_embeddings = 131072},
    {.name = "Qwen3MoeForCausalLM", .describe = DescribeQwen3Moe, .max_position_embeddings = 32768},
    {.name = "GptOssForCausalLM",
     .describe = DescribeGptOss,
     .head_dim = 64,
     .rms_norm_eps = 1e-5f,
     .max_position_embeddings = 131072},
};

}  // namespace

const Architecture* FindArchitecture(std::string_view name) {
  for (const Architecture& known : kArchitectures) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

std::string ArchitectureNames() {
  std::string all;
  for (const Architecture& known : kArchitectures) {
    all += (all.empty() ? "" : ", ") + std::string(known.name);
  }
  return all;
}

}  // namespace outrider
