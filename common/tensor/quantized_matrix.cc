#include "common/tensor/quantized_matrix.h"

#include <algorithm>
#include <bit>

#include "common/math/fp4.h"
#include "common/math/fp8.h"

namespace outrider {
namespace {

// To the nearest integer, ties to even, in a loop that the compiler vectorises: adding 1.5 * 2^23
// leaves no bits for a fraction. REQUIRES: |x| < 2^22.
float RoundToEven(float x) {
  constexpr float kNoFraction = 12582912.f;
  return x + kNoFraction - kNoFraction;
}

// Columns that share a unit, 0 without units.
int64_t UnitColumns(const QuantizedMatrix& matrix) {
  return matrix.unit_groups * matrix.group_size;
}

// Appends an element for each new group: that of the old one which it is in, or 0.
void AppendByGroup(const QuantizedMatrix& from, std::span<const float> values, int64_t group_size,
                   std::vector<float>* out) {
  const int64_t new_groups = from.columns / group_size;
  for (int64_t row = 0; row < from.rows; ++row) {
    for (int64_t group = 0; group < new_groups; ++group) {
      const int64_t old = row * from.groups() + group * group_size / from.group_size;
      out->push_back(values.empty() ? 0.f : values[static_cast<size_t>(old)]);
    }
  }
}

}  // namespace

const char* CodeTypeName(CodeType type) {
  switch (type) {
    case CodeType::kInt4: return "int4";
    case CodeType::kInt8: return "int8";
    case CodeType::kFp8E4M3: return "fp8";
    case CodeType::kFp4E2M1: return "mxfp4";
  }
  return "unknown";
}

float CodeValue(CodeType type, uint8_t code) {
  switch (type) {
    case CodeType::kInt4: return static_cast<float>(code);
    case CodeType::kInt8: return static_cast<float>(static_cast<int8_t>(code));
    case CodeType::kFp8E4M3: return Fp8ToFloat(code);
    case CodeType::kFp4E2M1: return Fp4ToFloat(code);
  }
  return 0;
}

void QuantizedMatrix::WidenRow(int64_t row, std::span<float> out) const {
  const auto first_group = static_cast<size_t>(row * groups());
  const auto first = static_cast<size_t>(row * columns);
  for (size_t i = 0; i < static_cast<size_t>(columns); ++i) {
    const size_t group = first_group + i / static_cast<size_t>(group_size);
    out[i] = CodeValue(type, codes[first + i]) * scales[group] +
             (offsets.empty() ? 0.f : offsets[group]);
  }
}

void QuantizedMatrix::WidenRowInOrder(int64_t row, std::span<float> out) const {
  if (column_order.empty()) return WidenRow(row, out);
  std::vector<float> values(static_cast<size_t>(columns));
  WidenRow(row, values);
  for (size_t i = 0; i < values.size(); ++i) out[static_cast<size_t>(column_order[i])] = values[i];
}

QuantizedMatrix StackRows(std::span<const QuantizedMatrix> parts) {
  QuantizedMatrix out = {.type = parts.front().type,
                         .columns = parts.front().columns,
                         .group_size = parts.front().group_size};
  bool has_offsets = false, has_units = UnitColumns(parts.front()) > 0;
  for (const QuantizedMatrix& part : parts) {
    if (part.type != out.type) out.type = CodeType::kInt8;  // codes from 0 to 15 keep their value
    out.group_size = std::min(out.group_size, part.group_size);
    has_offsets = has_offsets || !part.offsets.empty();
    has_units = has_units && UnitColumns(part) == UnitColumns(parts.front());
  }
  if (has_units) out.unit_groups = UnitColumns(parts.front()) / out.group_size;
  for (const QuantizedMatrix& part : parts) {
    out.rows += part.rows;
    out.codes.insert(out.codes.end(), part.codes.begin(), part.codes.end());
    AppendByGroup(part, part.scales, out.group_size, &out.scales);
    if (has_offsets) AppendByGroup(part, part.offsets, out.group_size, &out.offsets);
    if (!has_units) continue;
    out.scale_units.insert(out.scale_units.end(), part.scale_units.begin(), part.scale_units.end());
    if (!has_offsets) continue;
    std::vector<float> units = part.offset_units;
    units.resize(part.scale_units.size());
    out.offset_units.insert(out.offset_units.end(), units.begin(), units.end());
  }
  return out;
}

void RoundRow(std::span<const float> values, CodeType type, int64_t group_size,
              std::span<uint8_t> codes, std::span<float> scales) {
  const bool is_int4 = type == CodeType::kInt4;
  const float steps = is_int4 ? 7.f : 127.f;
  const int32_t zero = is_int4 ? 8 : 0;
  const auto size = static_cast<size_t>(group_size);
  for (size_t first = 0, group = 0; first < values.size(); first += size, ++group) {
    const std::span<const float> part =
        values.subspan(first, std::min(size, values.size() - first));
    // Magnitudes are ordered as their bits are.
    uint32_t largest = 0;
    for (const float value : part) {
      largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
    }
    const auto max = std::bit_cast<float>(largest);
    const float inverse = max > 0.f ? steps / max : 0.f;
    const auto most = static_cast<int32_t>(steps);
    for (size_t i = 0; i < part.size(); ++i) {
      const auto nearest = static_cast<int32_t>(RoundToEven(part[i] * inverse));
      codes[first + i] = static_cast<uint8_t>(std::clamp(nearest, -most, most) + zero);
    }
    scales[group] = max / steps;
  }
}

QuantizedMatrix RoundMatrix(const TensorView& weight, CodeType type) {
  const bool is_int4 = type == CodeType::kInt4;
  QuantizedMatrix out = {.type = type, .rows = weight.shape[0], .columns = weight.shape[1]};
  out.group_size = is_int4 ? std::min(kInt4GroupSize, out.columns) : out.columns;
  const auto columns = static_cast<size_t>(out.columns), groups = static_cast<size_t>(out.groups());
  out.codes.resize(weight.elements());
  out.scales.resize(static_cast<size_t>(out.rows) * groups);
  std::vector<float> values(columns);
  for (size_t row = 0; row < static_cast<size_t>(out.rows); ++row) {
    LoadElements(weight, row * columns, values);
    RoundRow(values, type, out.group_size, std::span(out.codes).subspan(row * columns, columns),
             std::span(out.scales).subspan(row * groups, groups));
  }
  if (is_int4) {
    for (const float scale : out.scales) out.offsets.push_back(-8.f * scale);
  }
  return out;
}

}  // namespace outrider
