#include "common/model/gguf_tensors.h"

#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "common/base/printable.h"
#include "common/model/ggml_blocks.h"

namespace outrider {
namespace {

constexpr int64_t kCodeBlock = 32;  // elements per block of Q8_0 and Q4_0

int64_t RowsOf(const GgufTensor& tensor) { return tensor.shape.front(); }
// Elements per row; each element of a vector is a row.
int64_t RowElements(const GgufTensor& tensor) {
  int64_t elements = 1;
  for (size_t i = 1; i < tensor.shape.size(); ++i) elements *= tensor.shape[i];
  return elements;
}

bool IsFloats(GgmlType type) {
  return type == GgmlType::kF32 || type == GgmlType::kF16 || type == GgmlType::kBf16;
}

Dtype DtypeOf(GgmlType type) {
  if (type == GgmlType::kF16) return Dtype::kF16;
  return type == GgmlType::kBf16 ? Dtype::kBf16 : Dtype::kF32;
}

// The file's row that is row `row` of the checkpoint.
int64_t StoredRow(const GgufEntry& entry, int64_t row) {
  if (entry.interleaved_heads == 0) return row;
  const int64_t size = RowsOf(entry.tensor) / entry.interleaved_heads, half = size / 2;
  const int64_t within = row % size;
  return row - within + 2 * (within % half) + within / half;
}

const std::byte* RowBytes(const GgufEntry& entry, int64_t row) {
  const auto each = static_cast<int64_t>(entry.tensor.bytes.size()) / RowsOf(entry.tensor);
  return entry.tensor.bytes.data() + StoredRow(entry, row) * each;
}

}  // namespace

Status CheckRows(const GgufEntry& entry) {
  const GgufTensor& tensor = entry.tensor;
  const std::string name = Printable(tensor.name);
  if (tensor.shape.size() == 1 && !IsFloats(tensor.type)) {
    return Unimplemented(name + " is a vector of " + GgmlTypeName(tensor.type) +
                         "; vectors are read as F32, F16 and BF16");
  }
  if (entry.interleaved_heads == 0) return Status();
  if (RowsOf(tensor) % (2 * entry.interleaved_heads) == 0) return Status();
  return InvalidArgument(name + " has " + std::to_string(RowsOf(tensor)) + " rows, which are not " +
                         std::to_string(entry.interleaved_heads) + " heads of an even size");
}

bool IsPlain(const GgufEntry& entry) {
  return entry.interleaved_heads == 0 && IsFloats(entry.tensor.type);
}

bool HasCodes(const GgufEntry& entry) {
  return entry.tensor.type == GgmlType::kQ80 || entry.tensor.type == GgmlType::kQ40;
}

WidenedTensor Widen(const GgufEntry& entry, Dtype blocks_as) {
  const GgufTensor& tensor = entry.tensor;
  const int64_t rows = RowsOf(tensor);
  const auto elements = static_cast<size_t>(RowElements(tensor));
  WidenedTensor out;
  if (IsFloats(tensor.type)) {
    out.dtype = DtypeOf(tensor.type);
    const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(rows);
    out.bytes.resize(tensor.bytes.size());
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(out.bytes.data() + static_cast<size_t>(row) * row_bytes, RowBytes(entry, row),
                  row_bytes);
    }
  } else {
    out.dtype = blocks_as;
    out.bytes.resize(static_cast<size_t>(rows) * elements * DtypeBytes(blocks_as));
    std::vector<float> values(elements);
    std::byte* to = out.bytes.data();
    for (int64_t row = 0; row < rows; ++row) {
      Dequantize(tensor.type, RowBytes(entry, row), values);
      for (const float value : values) {
        if (blocks_as == Dtype::kF32) {
          std::memcpy(to, &value, sizeof value);
        } else {
          const uint16_t rounded = FloatToBf16(value);
          std::memcpy(to, &rounded, sizeof rounded);
        }
        to += DtypeBytes(blocks_as);
      }
    }
  }
  return out;
}

Status AppendCodes(const GgufEntry& entry, QuantizedMatrix* matrix) {
  const GgufTensor& tensor = entry.tensor;
  const bool is_int4 = tensor.type == GgmlType::kQ40;
  matrix->type = is_int4 ? CodeType::kInt4 : CodeType::kInt8;
  matrix->columns = RowElements(tensor);
  matrix->group_size = kCodeBlock;
  const int64_t rows = RowsOf(tensor), groups = matrix->groups();
  auto at = static_cast<size_t>(matrix->rows * groups);
  matrix->rows += rows;
  matrix->codes.resize(static_cast<size_t>(matrix->rows * matrix->columns));
  matrix->scales.resize(static_cast<size_t>(matrix->rows * groups));
  if (is_int4) matrix->offsets.resize(matrix->scales.size());
  for (int64_t row = 0; row < rows; ++row) {
    const std::byte* block = RowBytes(entry, row);
    for (int64_t group = 0; group < groups; ++group, ++at) {
      UnpackCodes(tensor.type, block, matrix->codes.data() + at * kCodeBlock, &matrix->scales[at]);
      block += GgmlBlockBytes(tensor.type);
      if (!std::isfinite(matrix->scales[at])) {
        return DataLoss(Printable(tensor.name) + ": the scale of block " + std::to_string(group) +
                        " of row " + std::to_string(StoredRow(entry, row)) +
                        " is not finite: the file is damaged, fetch or convert it again");
      }
      if (is_int4) matrix->offsets[at] = -8.f * matrix->scales[at];
    }
  }
  return Status();
}

}  // namespace outrider
