// Some rows and columns of a matrix: what one rank of several keeps of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/quantized_matrix.h"
#include "common/tensor/tensor.h"

namespace outrider {

struct Range {
  int64_t first = 0;
  int64_t count = 0;

  bool operator==(const Range&) const = default;
};

// The same ranges, with those as one that follow each other without a gap.
std::vector<Range> Joined(std::span<const Range> ranges);

// The `rows` and `columns` of a matrix of floats. Whole rows are a view of the same memory; others
// are copied to `storage`, which must outlive the result. REQUIRES: the ranges are within `matrix`.
TensorView SliceOf(const TensorView& matrix, Range rows, Range columns,
                   std::vector<std::byte>* storage);

// The same for codes; `rows` are stacked, and the whole matrix is not copied. kUnimplemented if the
// columns begin or end within a group of scales, or if the matrix has another order of columns.
// REQUIRES: as above.
Result<QuantizedMatrix> SliceOf(QuantizedMatrix matrix, std::span<const Range> rows, Range columns);

}  // namespace outrider
