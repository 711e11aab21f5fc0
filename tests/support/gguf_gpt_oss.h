// The experts of gpt-oss, as a checkpoint stacks them and as a GGUF file has them, for tests.
// Shares no code with common/model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace outrider {

struct GgufStack {
  std::string name;            // "blk.3.ffn_gate_exps.weight"
  std::vector<int64_t> shape;  // [experts, rows, inputs], or [experts, rows] of biases
  std::vector<float> values;
};

// Whether the checkpoint's tensor has experts stacked, or their biases.
bool IsStackedExperts(const std::string& name);

// Takes such a tensor apart. "model.layers.3.mlp.experts.gate_up_proj" [experts, inputs, 2 * rows],
// in which gates and ups alternate, becomes "blk.3.ffn_gate_exps.weight" and
// "blk.3.ffn_up_exps.weight"; "down_proj" becomes one; biases lack the inputs.
std::vector<GgufStack> SplitExperts(const std::string& name, const std::vector<int64_t>& shape,
                                    const std::vector<float>& values);

// The values of the checkpoint's tensor of `shape`, from its parts.
std::vector<float> JoinExperts(const std::vector<int64_t>& shape,
                               const std::vector<GgufStack>& parts);

}  // namespace outrider
