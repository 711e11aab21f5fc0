// The supported architectures of config.json. A new one is a file of this folder, which reads the
// architecture's fields into the description of the layers, and a line of the table in
// architecture.cc.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/config_fields.h"

namespace outrider {

struct Architecture {
  std::string_view name;  // "LlamaForCausalLM"
  // Describes all of config->layers. The sizes, and so the number of layers, have been read before.
  // kUnimplemented names an unsupported option, kInvalidArgument a field out of range.
  Status (*describe)(const JsonValue& json, ModelConfig* config);
  // Defaults for fields missing from config.json:
  int head_dim = 0;  // 0: hidden_size / num_attention_heads
  float rms_norm_eps = 1e-6f;
  int max_position_embeddings = 0;
};

// nullptr: unknown.
const Architecture* FindArchitecture(std::string_view name);
// "LlamaForCausalLM, MistralForCausalLM, ..."
std::string ArchitectureNames();

// One per file of this folder.
Status DescribeGemma2(const JsonValue& json, ModelConfig* config);
Status DescribeGemma3(const JsonValue& json, ModelConfig* config);
Status DescribeGptOss(const JsonValue& json, ModelConfig* config);
Status DescribeGranite(const JsonValue& json, ModelConfig* config);
Status DescribeLlama(const JsonValue& json, ModelConfig* config);
Status DescribeMistral(const JsonValue& json, ModelConfig* config);
Status DescribeMixtral(const JsonValue& json, ModelConfig* config);
Status DescribeOlmo2(const JsonValue& json, ModelConfig* config);
Status DescribePhi3(const JsonValue& json, ModelConfig* config);
Status DescribeQwen2(const JsonValue& json, ModelConfig* config);
Status DescribeQwen3(const JsonValue& json, ModelConfig* config);
Status DescribeQwen3Moe(const JsonValue& json, ModelConfig* config);
Status DescribeSmolLm3(const JsonValue& json, ModelConfig* config);

}  // namespace outrider
