// How the CPU backend stores a weight matrix W[out, in] for the product: in panels of 32 outputs,
// each a contiguous stream of `in` steps, so that a product reads memory once and in order.
//   f32:    panel[in][32]
//   bf16:   panel[ceil(in / 2)][32][2]: two neighbours in k share 32 bits, so that widening is a
//           shift (even k) or a mask (odd k)
//   W8A16, FP8: panel[in][32] in bytes, which one instruction widens; `in` up to a multiple of 4
//   W8A8:   panel[ceil(in / 4)][32][4]: the operand order of the 4-way dot product instructions.
//           Also W8A16 where such instructions multiply it in fixed point
//   W4A16:  panel[ceil(in / 8)][32]: 8 codes in 32 bits, the first k lowest
//   MXFP4:  panel[ceil(in / 8)][32]: 8 codes in 32 bits, the first pair of k in the highest byte,
//           so that widening shifts it to the front; of a pair the first in the low half
// Outputs and k beyond the matrix are zeros. 32 outputs are two AVX-512 vectors, which with 8 rows
// make 16 accumulators.
//
// Codes of a few bits have a scale, and possibly an offset, for each output and group of inputs.
// MXFP4's scales are powers of two and kept as their exponents, a byte each; those of formats with
// units as a signed byte, with a float for each unit. Other integers keep scales as f16, and
// offsets as a signed byte that multiplies the scale, where both are exact; else all are floats.
//
// Owner: the model. Thread: immutable once packed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/backend/cpu/aligned_bytes.h"
#include "common/backend/packed_matrix.h"
#include "common/base/status.h"
#include "common/tensor/quantized_matrix.h"
#include "common/tensor/tensor.h"

namespace outrider {

constexpr int kPanelOutputs = 32;

// Inputs that may share a scale in products in fixed point: the sum of as many times 128 * 128
// stays below 2^31.
constexpr int kMaxFixedGroup = (1 << 17) - 1;

// Values of k in each 32-bit word of an output.
constexpr int StepsPerWord(WeightType type) {
  switch (type) {
    case WeightType::kF32: return 1;
    case WeightType::kF16:
    case WeightType::kBf16: return 2;
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kFp8: return 4;
    case WeightType::kW4A16:
    case WeightType::kMxfp4: return 8;
  }
  return 0;
}

// A further factor of an FP8 code besides its scale: it is widened as if its exponent had f16's
// bias, 15 instead of 7.
constexpr float kFp8Unit = 256.f;
constexpr float CodeUnit(WeightType type) { return type == WeightType::kFp8 ? kFp8Unit : 1.f; }

class PanelMatrix final : public PackedMatrix {
 public:
  // Packs on up to `threads` threads. `fixed_w8a16`: W8A16 is multiplied in fixed point, unless
  // more than kMaxFixedGroup inputs share a scale. kInvalidArgument unless `weight` is a matrix,
  // kUnimplemented for a type without a product here, kResourceExhausted when out of memory.
  static Result<std::unique_ptr<PanelMatrix>> Pack(const TensorView& weight, WeightType type,
                                                   int threads, bool fixed_w8a16);
  // The same for codes; also kInvalidArgument if `type` does not keep them as they are.
  static Result<std::unique_ptr<PanelMatrix>> Pack(const QuantizedMatrix& weight, WeightType type,
                                                   int threads, bool fixed_w8a16);

  int out_features() const override { return out_; }
  int in_features() const override { return in_; }
  size_t bytes() const override { return panels_.size() + scales_.size(); }
  WeightType type() const override { return type_; }

  int panel_count() const { return (out_ + kPanelOutputs - 1) / kPanelOutputs; }
  // 32-bit words of one output in a panel.
  int words() const { return (in_ + StepsPerWord(type_) - 1) / StepsPerWord(type_); }
  size_t panel_bytes() const { return static_cast<size_t>(words()) * kPanelOutputs * 4; }
  const char* panels() const { return panels_.data(); }
  // Whether 8-bit codes are in the order of dot product instructions.
  bool has_dot_order() const { return has_dot_order_; }

  // For codes: inputs that share a scale (at most `in`), and the number of such groups.
  int group_size() const { return group_size_; }
  int groups() const { return groups_; }
  // The scales, and the offsets or nullptr, of a panel's 32 outputs in one group. Not for MXFP4,
  // with units and with short scales.
  const float* scales(int panel, int group) const {
    return reinterpret_cast<const float*>(scales_.data()) + GroupAt(panel, group);
  }
  const float* offsets(int panel, int group) const {
    return has_offsets_ ? scales(panel_count() + panel, group) : nullptr;
  }
  bool has_offsets() const { return has_offsets_; }
  // Whether scales are f16 and offsets multiples of them.
  bool has_short_scales() const { return has_short_scales_; }
  const uint16_t* short_scales(int panel, int group) const {
    return reinterpret_cast<const uint16_t*>(scales_.data()) + GroupAt(panel, group);
  }
  const int8_t* scale_multiples(int panel, int group) const {
    const size_t scale_bytes = sizeof(uint16_t) * GroupAt(panel_count(), 0);
    return reinterpret_cast<const int8_t*>(scales_.data()) + scale_bytes + GroupAt(panel, group);
  }
  // With units: the scales, or the offsets, of a panel's 32 outputs in one group as multiples of
  // their units, and these units. REQUIRES: has_units(), and has_offsets() for offsets.
  bool has_units() const { return unit_groups_ > 0; }
  const int8_t* multiples(int panel, int group, bool offsets) const {
    return reinterpret_cast<const int8_t*>(scales_.data()) + MultipleAt(panel, group, offsets);
  }
  const float* units(int panel, int group, bool offsets) const {
    return reinterpret_cast<const float*>(scales_.data()) +
           UnitAt(panel, group / unit_groups_, offsets);
  }
  // MXFP4 only: the biased exponents of half the scales, as those of floats. The product reads
  // twice the value of a code, which is an integer. 0 is the exponent of 0.
  const uint8_t* exponents(int panel, int group) const {
    return reinterpret_cast<const uint8_t*>(scales_.data()) + GroupAt(panel, group);
  }
  // W8A8 only: for each of the panel's outputs, the sum of its integers.
  const int32_t* sums(int panel) const {
    return reinterpret_cast<const int32_t*>(scales(panel_count() + panel, 0));
  }
  // Step k of a panel is multiplied with input column_order()[k]; empty: with input k.
  std::span<const int32_t> column_order() const { return column_order_; }

  // Writes the `in` values of one output, as the product uses them.
  void Unpack(int output, float* row) const;

 private:
  PanelMatrix(WeightType type, int out, int in) : type_(type), out_(out), in_(in) {}
  // Index of the word that begins with input k, for output `lane` of a panel.
  size_t WordAt(int k, int lane) const {
    return static_cast<size_t>(k / StepsPerWord(type_)) * kPanelOutputs + lane;
  }
  // Index of the byte of an 8-bit code.
  size_t ByteAt(int k, int lane) const {
    return has_dot_order_ ? 4 * WordAt(k, lane) + static_cast<size_t>(k % 4)
                          : static_cast<size_t>(k) * kPanelOutputs + static_cast<size_t>(lane);
  }
  size_t GroupAt(int panel, int group) const {
    return (static_cast<size_t>(panel) * static_cast<size_t>(groups_) + group) * kPanelOutputs;
  }
  // With units: where they are among the floats, and the multiples after them among the bytes.
  size_t UnitAt(int panel, int unit, bool offsets) const {
    const size_t panels = static_cast<size_t>(panel) + (offsets ? panel_count() : 0);
    return (panels * static_cast<size_t>(groups_ / unit_groups_) + unit) * kPanelOutputs;
  }
  size_t MultipleAt(int panel, int group, bool offsets) const {
    return sizeof(float) * UnitAt(panel_count(), 0, /*offsets=*/has_offsets_) +
           GroupAt(panel + (offsets ? panel_count() : 0), group);
  }
  // Empty panels for a matrix of this shape; same errors as Pack.
  static Result<std::unique_ptr<PanelMatrix>> Make(int64_t out, int64_t in, WeightType type);
  // Allocates scales or MXFP4's exponents, and offsets or W8A8's sums, and chooses the order of
  // 8-bit codes. REQUIRES: a type with codes.
  Status MakeScales(int64_t group_size, bool has_offsets, int64_t unit_groups, bool fixed_w8a16);
  // Calls fill(panel) for every panel.
  template <class F>
  void FillPanels(int threads, const F& fill);
  int LanesOf(int panel) const { return std::min(kPanelOutputs, out_ - panel * kPanelOutputs); }
  void FillFloats(const TensorView& weight, int panel);  // f32 and bf16
  // Codes: rounded from floats, and copied as they are.
  void FillRounded(const TensorView& weight, int panel);
  void FillCopied(const QuantizedMatrix& weight, int panel);
  // `codes` is padded with zeros to a multiple of 8.
  void FillCodes(int panel, int lane, std::span<const uint8_t> codes);
  // `offsets` may be empty.
  void FillScales(int panel, int lane, std::span<const float> scales,
                  std::span<const float> offsets);
  // With short scales: those of one output. `offsets` may be empty.
  void FillShortScales(int panel, int lane, std::span<const float> scales,
                       std::span<const float> offsets);
  // With units: the scales or the offsets of one output.
  void FillMultiples(int panel, int lane, std::span<const float> values,
                     std::span<const float> units, bool offsets);
  float ScaleOf(int panel, int lane, int group) const;
  float OffsetOf(int panel, int lane, int group) const;
  // The value of code k times its group's scale, which includes CodeUnit.
  float WidenCode(int output, int k) const;

  WeightType type_;
  int out_;
  int in_;
  int group_size_ = 0;
  int groups_ = 0;
  bool has_offsets_ = false;
  bool has_dot_order_ = false;
  bool has_short_scales_ = false;
  int unit_groups_ = 0;  // groups that share a unit; 0: no units
  std::vector<int32_t> column_order_;
  AlignedBytes panels_;
  AlignedBytes scales_;  // followed by offsets or sums, if any; with units, after those
};

}  // namespace outrider
