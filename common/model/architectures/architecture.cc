#include "common/model/architectures/architecture.h"

namespace outrider {
namespace {

// The defaults are those of Transformers.
constexpr Architecture kArchitectures[] = {
    {.name = "LlamaForCausalLM", .describe = DescribeLlama},
    {.name = "MistralForCausalLM", .describe = DescribeMistral},
    {.name = "Qwen2ForCausalLM", .describe = DescribeQwen2},
    {.name = "Qwen3ForCausalLM", .describe = DescribeQwen3, .head_dim = 128},
    {.name = "Gemma2ForCausalLM", .describe = DescribeGemma2, .head_dim = 256},
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
