#include "common/backend/cuda/cuda_codes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "common/backend/cuda/kernels/code_layout.h"
#include "common/math/fp4.h"

namespace outrider {
namespace {

static_assert(std::endian::native == std::endian::little);

// The inverse of CodeOfEight.
void WriteEight(CodeType type, const uint8_t* codes, std::byte* out) {
  uint64_t eight;
  std::memcpy(&eight, codes, sizeof eight);
  if (!HasFourBits(type)) {
    // The two bytes in the middle of each word change places.
    constexpr uint64_t kLow = 0x0000ff000000ff00, kHigh = 0x00ff000000ff0000;
    const uint64_t moved = (eight & kLow) << 8 | (eight & kHigh) >> 8;
    eight = (eight & ~(kLow | kHigh)) | moved;
    std::memcpy(out, &eight, sizeof eight);
    return;
  }
  // Codes with even indices, then those with odd ones, move together.
  const auto half = [](uint64_t every_second) {
    every_second &= 0x000f000f000f000f;
    every_second = (every_second | every_second >> 12) & 0x000000ff000000ff;
    return static_cast<uint32_t>((every_second | every_second >> 24) & 0xffff);
  };
  const uint32_t word = half(eight) | half(eight >> 8) << 16;
  std::memcpy(out, &word, sizeof word);
}

// Fills the steps of `matrix` from index `first` on.
void FillSteps(const QuantizedMatrix& matrix, size_t first, size_t count, std::byte* out) {
  const int64_t steps = (matrix.columns + kCodeStep - 1) / kCodeStep;  // of a tile
  const auto step_bytes = static_cast<size_t>(CodeStepBytes(matrix.type));
  std::memset(out, 0, count * step_bytes);
  for (size_t step = first; step < first + count; ++step, out += step_bytes) {
    const int64_t first_row = static_cast<int64_t>(step) / steps * kCodeTileRows;
    const int64_t first_column = static_cast<int64_t>(step) % steps * kCodeStep;
    const auto rows = static_cast<int>(std::min<int64_t>(kCodeTileRows, matrix.rows - first_row));
    const auto columns =
        static_cast<int>(std::min<int64_t>(kCodeStep, matrix.columns - first_column));
    for (int row = 0; row < rows; ++row) {
      const uint8_t* const codes =
          matrix.codes.data() + (first_row + row) * matrix.columns + first_column;
      int i = 0;
      for (; i + 8 <= columns; i += 8) {
        WriteEight(matrix.type, codes + i, out + EightCodesAt(matrix.type, row, i));
      }
      if (i == columns) continue;
      uint8_t eight[8] = {};
      std::memcpy(eight, codes + i, static_cast<size_t>(columns - i));
      WriteEight(matrix.type, eight, out + EightCodesAt(matrix.type, row, i));
    }
  }
}

// DeviceCodes::in_blocks of a matrix without offsets.
bool IsInBlocks(const QuantizedMatrix& matrix) {
  if (matrix.type != CodeType::kFp8E4M3 || matrix.group_size != kScaleBlock ||
      matrix.rows % kScaleBlock != 0 || matrix.columns % kScaleBlock != 0) {
    return false;
  }
  const auto groups = static_cast<size_t>(matrix.groups());
  for (size_t i = 0; i < matrix.scales.size(); ++i) {
    const size_t row = i / groups / kScaleBlock * kScaleBlock;
    if (matrix.scales[i] != matrix.scales[row * groups + i % groups]) return false;
  }
  return true;
}

}  // namespace

template <class F>
Result<const void*> CudaCodes::Copy(size_t units, size_t unit_bytes, StagedCopy* staging,
                                    const F& fill) {
  std::unique_ptr<CudaBuffer>& buffer = buffers_[next_++];
  OUTRIDER_ASSIGN(
      buffer, CudaBuffer::Allocate(MemoryKind::kDevice, units * unit_bytes, &staging->stream()));
  staging->Write(buffer->data(), units * unit_bytes, unit_bytes, fill);
  bytes_ += units * unit_bytes;
  return static_cast<const void*>(buffer->data());
}

template <class T, class Of>
Result<const T*> CudaCodes::CopyScales(const QuantizedMatrix& matrix, StagedCopy* staging,
                                       const Of& of) {
  const auto groups = static_cast<size_t>(matrix.groups());
  const size_t tiles = static_cast<size_t>(matrix.rows + kCodeTileRows - 1) / kCodeTileRows;
  // A unit is a group of a tile.
  OUTRIDER_ASSIGN(
      const void* copied,
      Copy(tiles * groups, kCodeTileRows * sizeof(T), staging,
           [&](std::byte* piece, size_t first, size_t count) {
             std::memset(piece, 0, count * kCodeTileRows * sizeof(T));
             for (size_t unit = first; unit < first + count; ++unit) {
               const size_t first_row = unit / groups * kCodeTileRows, group = unit % groups;
               const size_t rows =
                   std::min<size_t>(kCodeTileRows, static_cast<size_t>(matrix.rows) - first_row);
               for (size_t row = 0; row < rows; ++row) {
                 const auto at = (unit - first) * kCodeTileRows +
                                 static_cast<size_t>(ScaleAt(1, static_cast<int64_t>(row), 0));
                 const T value = of((first_row + row) * groups + group);
                 std::memcpy(piece + at * sizeof(T), &value, sizeof(T));
               }
             }
           }));
  return static_cast<const T*>(copied);
}

Result<std::unique_ptr<CudaCodes>> CudaCodes::Upload(const QuantizedMatrix& matrix,
                                                     StagedCopy* staging) {
  std::unique_ptr<CudaCodes> out(new CudaCodes());
  const auto columns = static_cast<size_t>(matrix.columns);
  DeviceCodes& view = out->view_;
  view.type = matrix.type;
  view.columns = static_cast<int>(columns);
  view.group_size = static_cast<int>(matrix.group_size);
  view.groups = static_cast<int>(matrix.groups());
  const size_t tiles = static_cast<size_t>(matrix.rows + kCodeTileRows - 1) / kCodeTileRows;
  const size_t steps = tiles * ((columns + kCodeStep - 1) / kCodeStep);
  OUTRIDER_ASSIGN(const void* codes,
                  out->Copy(steps, static_cast<size_t>(CodeStepBytes(matrix.type)), staging,
                            [&](std::byte* piece, size_t first, size_t count) {
                              FillSteps(matrix, first, count, piece);
                            }));
  view.codes = static_cast<const uint8_t*>(codes);
  const std::vector<float>&scales = matrix.scales, &offsets = matrix.offsets;
  if (matrix.type == CodeType::kFp4E2M1) {
    OUTRIDER_ASSIGN(view.exponents, out->CopyScales<uint8_t>(matrix, staging, [&](size_t i) {
      return ExponentOf(scales[i]);
    }));
  } else {
    OUTRIDER_ASSIGN(view.scales,
                    out->CopyScales<float>(matrix, staging, [&](size_t i) { return scales[i]; }));
  }
  // What DeviceCodes takes for granted without offsets.
  const bool is_int4 = matrix.type == CodeType::kInt4;
  const auto offset = [&](size_t i) { return offsets.empty() ? 0.f : offsets[i]; };
  size_t i = 0;
  while (i < scales.size() && offset(i) == (is_int4 ? -8.f * scales[i] : 0.f)) ++i;
  if (i < scales.size()) {
    OUTRIDER_ASSIGN(view.offsets, out->CopyScales<float>(matrix, staging, offset));
  }
  view.in_blocks = view.offsets == nullptr && IsInBlocks(matrix);
  if (!matrix.column_order.empty()) {
    std::vector<int32_t> column_of_input(columns);
    for (size_t input = 0; input < columns; ++input) {
      column_of_input[static_cast<size_t>(matrix.column_order[input])] =
          static_cast<int32_t>(input);
    }
    OUTRIDER_ASSIGN(const void* device_columns,
                    out->Copy(columns, sizeof(int32_t), staging,
                              [&](std::byte* piece, size_t first, size_t count) {
                                std::memcpy(piece, column_of_input.data() + first,
                                            count * sizeof(int32_t));
                              }));
    view.column_of_input = static_cast<const int32_t*>(device_columns);
  }
  return out;
}

}  // namespace outrider
