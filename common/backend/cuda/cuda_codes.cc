#include "common/backend/cuda/cuda_codes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/math/fp4.h"

namespace outrider {

template <class F>
Result<const void*> CudaCodes::Copy(size_t rows, size_t row_bytes, StagedCopy* staging,
                                    const F& fill) {
  std::unique_ptr<CudaBuffer>& buffer = buffers_[next_++];
  OUTRIDER_ASSIGN(buffer,
                  CudaBuffer::Allocate(MemoryKind::kDevice, rows * row_bytes, &staging->stream()));
  staging->Write(buffer->data(), rows * row_bytes, row_bytes, fill);
  bytes_ += rows * row_bytes;
  return static_cast<const void*>(buffer->data());
}

Result<std::unique_ptr<CudaCodes>> CudaCodes::Upload(const QuantizedMatrix& matrix,
                                                     StagedCopy* staging) {
  std::unique_ptr<CudaCodes> out(new CudaCodes());
  const auto rows = static_cast<size_t>(matrix.rows), columns = static_cast<size_t>(matrix.columns);
  const bool is_fp4 = matrix.type == CodeType::kFp4E2M1;
  const size_t per_byte = is_fp4 || matrix.type == CodeType::kInt4 ? 2 : 1;
  const size_t row_bytes = (columns + per_byte - 1) / per_byte;
  DeviceCodes& view = out->view_;
  view.type = matrix.type;
  view.columns = static_cast<int>(columns);
  view.row_bytes = static_cast<int>(row_bytes);
  view.group_size = static_cast<int>(matrix.group_size);
  view.groups = static_cast<int>(matrix.groups());
  const auto fill_codes = [&](std::byte* piece, size_t first, size_t count) {
    for (size_t row = first; row < first + count; ++row, piece += row_bytes) {
      const uint8_t* const codes = matrix.codes.data() + row * columns;
      if (per_byte == 1) {
        std::memcpy(piece, codes, columns);
        continue;
      }
      for (size_t i = 0; i < columns; i += 2) {
        const unsigned second = i + 1 < columns ? codes[i + 1] : 0;
        piece[i / 2] = static_cast<std::byte>(codes[i] | second << 4);
      }
    }
  };
  OUTRIDER_ASSIGN(const void* codes, out->Copy(rows, row_bytes, staging, fill_codes));
  view.codes = static_cast<const uint8_t*>(codes);
  const auto upload = [&](const auto& values, size_t count) {
    const size_t bytes = count * sizeof values[0];
    return out->Copy(values.size() / count, bytes, staging,
                     [&](std::byte* piece, size_t first, size_t pieces) {
                       std::memcpy(piece, values.data() + first * count, pieces * bytes);
                     });
  };
  const auto groups = static_cast<size_t>(matrix.groups());
  if (is_fp4) {
    std::vector<uint8_t> exponents;
    for (const float scale : matrix.scales) exponents.push_back(ExponentOf(scale));
    OUTRIDER_ASSIGN(const void* uploaded, upload(exponents, groups));
    view.exponents = static_cast<const uint8_t*>(uploaded);
  } else {
    OUTRIDER_ASSIGN(const void* scales, upload(matrix.scales, groups));
    view.scales = static_cast<const float*>(scales);
  }
  if (!matrix.offsets.empty()) {
    OUTRIDER_ASSIGN(const void* offsets, upload(matrix.offsets, groups));
    view.offsets = static_cast<const float*>(offsets);
  }
  if (!matrix.column_order.empty()) {
    std::vector<int32_t> column_of_input(columns);
    for (size_t i = 0; i < columns; ++i) {
      column_of_input[static_cast<size_t>(matrix.column_order[i])] = static_cast<int32_t>(i);
    }
    OUTRIDER_ASSIGN(const void* device_columns, upload(column_of_input, size_t{1}));
    view.column_of_input = static_cast<const int32_t*>(device_columns);
  }
  return out;
}

}  // namespace outrider
