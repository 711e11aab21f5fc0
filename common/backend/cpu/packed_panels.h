// How the CPU backend keeps a weight matrix W[out, in] for the product: panels of 32 outputs, each
// panel a contiguous stream of `in` steps, so that a product reads memory once and in order.
//   f32:   panel[in][32]
//   bf16:  panel[ceil(in / 2)][32][2]: two neighbours in k share 32 bits, so that widening is a
//          shift (even k) or a mask (odd k)
//   W8A16: panel[in][32] in bytes, which one instruction widens; `in` up to a multiple of 4
//   W8A8:  panel[ceil(in / 4)][32][4]: the operand order of the 4-way dot product instructions
// Outputs and k beyond the matrix are zeros. 32 outputs are two vectors of AVX-512, which with 8
// rows make 16 accumulators.
//
// Owner: the model. Thread: immutable once packed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/backend/cpu/aligned_bytes.h"
#include "common/backend/packed_matrix.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"

namespace outrider {

constexpr int kPanelOutputs = 32;

// k for each 32 bits of an output.
constexpr int StepsPerWord(WeightType type) {
  switch (type) {
    case WeightType::kF32: return 1;
    case WeightType::kF16:
    case WeightType::kBf16: return 2;
    case WeightType::kW8A16:
    case WeightType::kW8A8: return 4;
  }
  return 0;
}

constexpr bool IsInt8(WeightType type) {
  switch (type) {
    case WeightType::kW8A16:
    case WeightType::kW8A8: return true;
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBf16: break;
  }
  return false;
}

class PanelMatrix final : public PackedMatrix {
 public:
  // On up to `threads` threads. kInvalidArgument unless `weight` is a matrix, kUnimplemented for a
  // type without a product here, kResourceExhausted when memory is out.
  static Result<std::unique_ptr<PanelMatrix>> Pack(const TensorView& weight, WeightType type,
                                                   int threads);
  // The same of integers; kInvalidArgument besides when `type` keeps floats.
  static Result<std::unique_ptr<PanelMatrix>> Pack(const Int8Matrix& weight, WeightType type,
                                                   int threads);

  int out_features() const override { return out_; }
  int in_features() const override { return in_; }
  size_t bytes() const override { return panels_.size() + rows_.size(); }
  WeightType type() const override { return type_; }

  int panel_count() const { return (out_ + kPanelOutputs - 1) / kPanelOutputs; }
  // 32-bit words of one output in a panel.
  int words() const { return (in_ + StepsPerWord(type_) - 1) / StepsPerWord(type_); }
  size_t panel_bytes() const { return static_cast<size_t>(words()) * kPanelOutputs * 4; }
  const char* panels() const { return panels_.data(); }

  // Of 8-bit integers only, [panel_count * 32] each: an output's scale and the sum of its integers.
  const float* scales() const { return reinterpret_cast<const float*>(rows_.data()); }
  const int32_t* sums() const {
    return reinterpret_cast<const int32_t*>(scales() + panel_count() * kPanelOutputs);
  }

  // Writes the `in` values of one output, as the product sees them.
  void Unpack(int output, float* row) const;

 private:
  PanelMatrix(WeightType type, int out, int in) : type_(type), out_(out), in_(in) {}
  // The word of input k, the first of its word, in a panel's output `lane`.
  size_t WordAt(int k, int lane) const {
    return static_cast<size_t>(k / StepsPerWord(type_)) * kPanelOutputs + lane;
  }
  // Empty panels for a matrix of these sides; errors as Pack.
  static Result<std::unique_ptr<PanelMatrix>> Make(int64_t out, int64_t in, WeightType type);
  // Calls fill(panel) for every panel.
  template <class F>
  void FillPanels(int threads, const F& fill);
  int LanesOf(int panel) const { return std::min(kPanelOutputs, out_ - panel * kPanelOutputs); }
  void FillFloats(const TensorView& weight, int panel);  // f32 and bf16
  // W8A16 and W8A8: from floats, which are rounded, and from integers.
  void FillRounded(const TensorView& weight, int panel);
  void FillCopied(const Int8Matrix& weight, int panel);
  // `integers` goes on with zeros to a multiple of 4.
  void FillOutput(int panel, int lane, const int8_t* integers, float scale);

  WeightType type_;
  int out_;
  int in_;
  AlignedBytes panels_;
  AlignedBytes rows_;
};

}  // namespace outrider
