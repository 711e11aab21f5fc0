// The acceptance head of a draft model: from the last hidden state of a draft token, it predicts
// the probability that the target accepts it after its prefix, min(1, p / q) (Huang et al. 2024,
// SpecDec++, section 3.2; where the published code has two logits, this has one, their difference).
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

// In the directory of the draft model's checkpoint.
inline constexpr char kAcceptanceHeadFile[] = "acceptance_head.safetensors";
inline constexpr int kMaxHeadDepth = 8;

struct AcceptanceHead {
  int width = 0;  // the draft model's hidden size
  int depth = 0;
  std::vector<float> parameters;  // in ResidualMlp's layout

  // The logit of each row of `hidden` [rows, width]; the logistic function gives the probability.
  std::vector<float> Logits(std::span<const float> hidden) const;

  // Tensors "blocks.{i}.weight" [width, width] (out, in), "blocks.{i}.bias" [width], "out.weight"
  // [1, width], "out.bias" [1]; F32, F16 or BF16. kNotFound if there is not such a file,
  // kInvalidArgument when it is not a head for a model of hidden size `width` or contains a number
  // that is not finite.
  static Result<AcceptanceHead> Load(const std::filesystem::path& file, int width);
  // Loads kAcceptanceHeadFile from a draft model's directory; nullopt: there is none.
  static Result<std::optional<AcceptanceHead>> LoadBeside(const std::filesystem::path& model,
                                                          int width);
  // Writes F32. After an error the file is still what it was (ReplaceFile).
  Status Save(const std::filesystem::path& file) const;
};

}  // namespace outrider
