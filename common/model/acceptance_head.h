// The acceptance head of a draft model: from the last hidden state of a drafted token, how likely
// the target is to accept it behind its prefix, min(1, p / q) (Huang et al. 2024, SpecDec++,
// section 3.2; the two logits of the published code are one here, their difference).
//
// Thread: immutable; any.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/math/residual_mlp.h"

namespace outrider {

// Beside the draft model's checkpoint.
inline constexpr char kAcceptanceHeadFile[] = "acceptance_head.safetensors";
inline constexpr int kMaxHeadDepth = 8;

struct AcceptanceHead {
  int width = 0;  // the draft model's hidden size
  int depth = 0;
  std::vector<float> parameters;  // as ResidualMlp has them

  // The logit of each row of `hidden` [rows, width]: a probability by the logistic function.
  std::vector<float> Logits(std::span<const float> hidden) const;

  // Tensors "blocks.{i}.weight" [width, width] (out, in), "blocks.{i}.bias" [width], "out.weight"
  // [1, width], "out.bias" [1]; F32, F16 or BF16. kNotFound without the file, kInvalidArgument when
  // it is not the head of a model of hidden size `width` or holds a number that is not finite.
  static Result<AcceptanceHead> Load(const std::filesystem::path& file, int width);
  // The file kAcceptanceHeadFile of a draft model's directory; nullopt: it has none.
  static Result<std::optional<AcceptanceHead>> LoadBeside(const std::filesystem::path& model,
                                                          int width);
  // Writes F32.
  Status Save(const std::filesystem::path& file) const;
};

}  // namespace outrider
