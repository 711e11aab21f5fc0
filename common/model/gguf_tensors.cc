#include "common/model/gguf_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "common/base/all_finite.h"
#include "common/base/printable.h"
#include "common/model/ggml_blocks.h"

namespace outrider {
namespace {

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

bool HasCodes(const GgufEntry& entry) { return CodesOf(entry.tensor.type).has_value(); }

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
  const GgmlCodes kept = *CodesOf(tensor.type);
  const int64_t block_elements = GgmlBlockElements(tensor.type);
  const int64_t block_groups = block_elements / kept.group_size;
  matrix->type = kept.type;
  matrix->columns = RowElements(tensor);
  matrix->group_size = kept.group_size;
  const int64_t rows = RowsOf(tensor), first = matrix->rows, groups = matrix->groups();
  matrix->rows += rows;
  matrix->codes.resize(static_cast<size_t>(matrix->rows * matrix->columns));
  matrix->scales.resize(static_cast<size_t>(matrix->rows * groups));
  if (kept.has_offsets) matrix->offsets.resize(matrix->scales.size());
  if (kept.has_units) matrix->unit_groups = block_groups;
  GgmlBlock unpacked;
  const auto scales = std::span(unpacked.scales).first(static_cast<size_t>(block_groups));
  const auto offsets = std::span(unpacked.offsets).first(kept.has_offsets ? scales.size() : 0);
  for (int64_t row = 0; row < rows; ++row) {
    const std::byte* block = RowBytes(entry, row);
    uint8_t* codes = matrix->codes.data() + (first + row) * matrix->columns;
    for (int64_t group = 0; group < groups; group += block_groups) {
      UnpackCodes(tensor.type, block, &unpacked);
      if (!AllFinite(scales) || !AllFinite(offsets)) {
        return DataLoss(Printable(tensor.name) + ": a scale of block " +
                        std::to_string(group / block_groups) + " of row " +
                        std::to_string(StoredRow(entry, row)) +
                        " is not finite: the file is damaged, fetch or convert it again");
      }
      const int64_t first_group = (first + row) * groups + group;
      std::copy_n(unpacked.codes.begin(), block_elements, codes);
      std::copy(scales.begin(), scales.end(), matrix->scales.begin() + first_group);
      if (kept.has_offsets) {
        std::copy(offsets.begin(), offsets.end(), matrix->offsets.begin() + first_group);
      }
      if (kept.has_units) {
        matrix->scale_units.push_back(unpacked.scale_unit);
        if (kept.has_offsets) matrix->offset_units.push_back(unpacked.offset_unit);
      }
      block += GgmlBlockBytes(tensor.type);
      codes += block_elements;
    }
  }
  return Status();
}

}  // namespace outrider
