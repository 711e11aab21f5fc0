#include "common/tensor/slice.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace outrider {
namespace {

// Appends those of `values` [rows, width] that are in the ranges.
template <class T>
void AppendPart(const std::vector<T>& values, int64_t width, std::span<const Range> rows,
                Range columns, std::vector<T>* out) {
  if (values.empty()) return;
  int64_t taken = 0;
  for (const Range& range : rows) taken += range.count;
  out->reserve(static_cast<size_t>(taken * columns.count));
  for (const Range& range : rows) {
    for (int64_t row = range.first; row < range.first + range.count; ++row) {
      const auto first = values.begin() + row * width + columns.first;
      out->insert(out->end(), first, first + columns.count);
    }
  }
}

std::string Show(Range range) {
  return std::to_string(range.first) + " to " + std::to_string(range.first + range.count);
}

}  // namespace

std::vector<Range> Joined(std::span<const Range> ranges) {
  std::vector<Range> joined;
  for (const Range& range : ranges) {
    if (!joined.empty() && joined.back().first + joined.back().count == range.first) {
      joined.back().count += range.count;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

TensorView SliceOf(const TensorView& matrix, Range rows, Range columns,
                   std::vector<std::byte>* storage) {
  const int64_t width = matrix.shape[1];
  OUTRIDER_CHECK(rows.first + rows.count <= matrix.shape[0] &&
                 columns.first + columns.count <= width);
  const auto element = static_cast<int64_t>(DtypeBytes(matrix.dtype));
  const auto* const first =
      static_cast<const std::byte*>(matrix.data) + (rows.first * width + columns.first) * element;
  TensorView slice = {first, matrix.dtype, {rows.count, columns.count}};
  if (columns.count == width) return slice;
  const auto row_bytes = static_cast<size_t>(columns.count * element);
  storage->resize(static_cast<size_t>(rows.count) * row_bytes);
  for (int64_t row = 0; row < rows.count; ++row) {
    std::memcpy(storage->data() + static_cast<size_t>(row) * row_bytes,
                first + row * width * element, row_bytes);
  }
  slice.data = storage->data();
  return slice;
}

Result<QuantizedMatrix> SliceOf(QuantizedMatrix matrix, std::span<const Range> rows,
                                Range columns) {
  const Range all_rows = {0, matrix.rows};
  if (columns.count == matrix.columns &&
      std::ranges::equal(Joined(rows), std::span(&all_rows, 1))) {
    return matrix;
  }
  QuantizedMatrix out = {.type = matrix.type, .columns = columns.count};
  for (const Range& range : rows) out.rows += range.count;
  const bool whole_rows = columns.count == matrix.columns;
  // Columns that share a scale, or a unit of scales.
  const int64_t together = matrix.group_size * std::max<int64_t>(matrix.unit_groups, 1);
  const bool ends_together = columns.first + columns.count == matrix.columns ||
                             (columns.first + columns.count) % together == 0;
  const bool one_group = matrix.group_size == matrix.columns;
  if (!whole_rows && !matrix.column_order.empty()) {
    return Unimplemented(
        "its columns are sorted by group (act-order) and cannot be divided; use one device");
  }
  if (!whole_rows && !one_group && (columns.first % together != 0 || !ends_together)) {
    return Unimplemented("columns " + Show(columns) + " divide groups of " +
                         std::to_string(together) + ", which share a scale; use fewer devices");
  }
  out.group_size = std::min(matrix.group_size, columns.count);
  out.unit_groups = matrix.unit_groups;
  out.column_order = matrix.column_order;
  AppendPart(matrix.codes, matrix.columns, rows, columns, &out.codes);
  const Range groups = {columns.first / matrix.group_size, out.groups()};
  AppendPart(matrix.scales, matrix.groups(), rows, groups, &out.scales);
  AppendPart(matrix.offsets, matrix.groups(), rows, groups, &out.offsets);
  if (matrix.unit_groups > 0) {
    const int64_t units = matrix.groups() / matrix.unit_groups;
    const Range taken = {groups.first / matrix.unit_groups, groups.count / matrix.unit_groups};
    AppendPart(matrix.scale_units, units, rows, taken, &out.scale_units);
    AppendPart(matrix.offset_units, units, rows, taken, &out.offset_units);
  }
  return out;
}

}  // namespace outrider
