// A matrix whose elements are codes of a few bits, as quantized checkpoints hold it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/tensor/tensor.h"

namespace outrider {

enum class CodeType {
  kInt4,     // 0 to 15
  kInt8,     // -128 to 127
  kFp8E4M3,  // OCP 8-bit floats: sign, 4 bits of exponent, 3 of mantissa; no infinities, two NaNs
  kFp4E2M1,  // 4-bit floats (math/fp4.h), 0 to 15; their scales are powers of two
};

const char* CodeTypeName(CodeType type);
// The value of one code, before its scale.
float CodeValue(CodeType type, uint8_t code);
// Whether the code is a NaN.
inline bool IsNanCode(CodeType type, uint8_t code) {
  return type == CodeType::kFp8E4M3 && (code & 0x7f) == 0x7f;
}

// Element [row, i] is worth CodeValue(code) * scale + offset, with the scale and the offset of its
// row's group i / group_size. Immutable once it is filled.
struct QuantizedMatrix {
  CodeType type = CodeType::kInt8;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t group_size = 0;      // columns of a group, `columns` at most; the last may have fewer
  std::vector<uint8_t> codes;  // [rows, columns], a byte each
  std::vector<float> scales;   // [rows, groups()]
  std::vector<float> offsets;  // [rows, groups()], or empty: all 0
  // For kInt4 and kInt8 with scales of scales (ggml's K-quants): `unit_groups` groups of a row
  // share a unit, of which each scale is an integer multiple, and another one for offsets. 0: no
  // units.
  int64_t unit_groups = 0;
  std::vector<float> scale_units;   // [rows, groups() / unit_groups]
  std::vector<float> offset_units;  // the same, or empty as `offsets`
  // Column i is input column_order[i] of the product: a permutation, or empty where it is i.
  std::vector<int32_t> column_order;

  int64_t groups() const { return (columns + group_size - 1) / group_size; }
  // The values of a row, in the order of the codes.
  void WidenRow(int64_t row, std::span<float> out) const;
  // The same, input by input.
  void WidenRowInOrder(int64_t row, std::span<float> out) const;
};

// Stacks the rows of `parts`, each of the same columns. What differs in type, groups or offsets
// becomes kInt8 in the smallest groups, with the same values; units stay where all have them for as
// many columns. REQUIRES: kInt4 or kInt8; each group size divides the larger ones and the columns;
// no order of columns.
QuantizedMatrix StackRows(std::span<const QuantizedMatrix> parts);

// Inputs of a group where floats are rounded to kInt4.
constexpr int64_t kInt4GroupSize = 128;

// Rounds `values` to codes of `type`, kInt4 or kInt8, symmetric around zero: the largest magnitude
// of each group is 7 or 127 steps of its scale. `codes` has an element for each value, `scales` for
// each group. The offset that kInt4 needs is -8 scales.
void RoundRow(std::span<const float> values, CodeType type, int64_t group_size,
              std::span<uint8_t> codes, std::span<float> scales);

// A matrix of floats, rounded so: kInt4 in groups of kInt4GroupSize, kInt8 with a scale a row.
// REQUIRES: `weight` is a matrix.
QuantizedMatrix RoundMatrix(const TensorView& weight, CodeType type);

}  // namespace outrider
