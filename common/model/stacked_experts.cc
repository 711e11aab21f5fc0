#include "common/model/stacked_experts.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "common/base/mapped_file.h"
#include "common/math/fp4.h"

namespace outrider {
namespace {

Result<const SafetensorsEntry*> FindBytes(const Checkpoint& checkpoint, const std::string& name,
                                          const std::vector<int64_t>& shape) {
  const SafetensorsEntry* const entry = checkpoint.Entry(name);
  if (entry == nullptr) return InvalidArgument("no tensor " + name);
  if (entry->dtype == "U8" && entry->shape == shape) return entry;
  return InvalidArgument(name + " is " + ShapeText(entry->shape) + " " + entry->dtype +
                         ", config.json asks for " + ShapeText(shape) + " U8");
}

const uint8_t* BytesOf(const SafetensorsEntry& entry) {
  return reinterpret_cast<const uint8_t*>(entry.bytes.data());
}

}  // namespace

int64_t StackedRow(const StackedShape& shape, int64_t row) {
  if (!shape.interleaved) return row;
  const int64_t half = shape.rows / 2;
  return row < half ? 2 * row : 2 * (row - half) + 1;
}

Result<StackedExperts> StackedExperts::Find(const Checkpoint& checkpoint, const std::string& name,
                                            const StackedShape& shape) {
  StackedExperts found(shape);
  if (checkpoint.Has(name + "_blocks") || checkpoint.Has(name + "_scales")) {
    if (shape.columns % kMxGroup != 0) {
      return InvalidArgument(name + "_blocks: " + std::to_string(shape.columns) +
                             " inputs do not fill blocks of " + std::to_string(kMxGroup));
    }
    const int64_t groups = shape.columns / kMxGroup;
    OUTRIDER_ASSIGN(found.blocks_, FindBytes(checkpoint, name + "_blocks",
                                             {shape.experts, shape.rows, groups, kMxGroupBytes}));
    OUTRIDER_ASSIGN(found.scales_,
                    FindBytes(checkpoint, name + "_scales", {shape.experts, shape.rows, groups}));
    const uint8_t* const begin = BytesOf(*found.scales_);
    const uint8_t* const end = begin + found.scales_->bytes.size();
    const uint8_t* const nan = std::find(begin, end, kNanExponent);
    if (nan == end) return found;
    const int64_t index = nan - begin;
    const std::array<int64_t, 3> place = {index / groups / shape.rows, index / groups % shape.rows,
                                          index % groups};
    return DataLoss(name + "_scales" + ShapeText(place) +
                    " is NaN; scales must be finite: the checkpoint is damaged, fetch or convert "
                    "it again");
  }
  Result<TensorView> view = checkpoint.Find(name);
  if (view.status().code() == Code::kNotFound) return InvalidArgument(view.status().message());
  OUTRIDER_TRY(view.status());
  const std::vector<int64_t> sides = {shape.experts, shape.columns, shape.rows};
  if (view->shape != sides) {
    return InvalidArgument(name + " is " + view->Describe() + ", config.json asks for " +
                           ShapeText(sides));
  }
  found.view_ = *view;
  return found;
}

std::vector<float> StackedExperts::Floats(int expert) const {
  const auto rows = static_cast<size_t>(shape_.rows), columns = static_cast<size_t>(shape_.columns);
  std::vector<size_t> from(rows);  // for each row
  for (size_t row = 0; row < rows; ++row) {
    from[row] = static_cast<size_t>(StackedRow(shape_, static_cast<int64_t>(row)));
  }
  std::vector<float> input_values(rows), out(rows * columns);
  for (size_t k = 0; k < columns; ++k) {
    LoadElements(view_, (static_cast<size_t>(expert) * columns + k) * rows, input_values);
    for (size_t row = 0; row < rows; ++row) out[row * columns + k] = input_values[from[row]];
  }
  return out;
}

QuantizedMatrix StackedExperts::Codes(int expert) const {
  QuantizedMatrix out = {.type = CodeType::kFp4E2M1,
                         .rows = shape_.rows,
                         .columns = shape_.columns,
                         .group_size = kMxGroup};
  const auto columns = static_cast<size_t>(shape_.columns);
  const size_t groups = columns / kMxGroup;
  out.codes.reserve(static_cast<size_t>(shape_.rows) * columns);
  out.scales.reserve(static_cast<size_t>(shape_.rows) * groups);
  for (int64_t row = 0; row < shape_.rows; ++row) {
    const auto from = static_cast<size_t>(expert * shape_.rows + StackedRow(shape_, row));
    const uint8_t* const pairs = BytesOf(*blocks_) + from * columns / 2;
    for (size_t i = 0; i < columns / 2; ++i) {
      out.codes.push_back(pairs[i] & 15);
      out.codes.push_back(pairs[i] >> 4);
    }
    const uint8_t* const exponents = BytesOf(*scales_) + from * groups;
    for (size_t group = 0; group < groups; ++group) {
      out.scales.push_back(ExponentToFloat(exponents[group]));
    }
  }
  return out;
}

int64_t StackedExperts::bytes() const {
  if (has_codes()) return static_cast<int64_t>(blocks_->bytes.size() + scales_->bytes.size());
  return static_cast<int64_t>(view_.elements() * DtypeBytes(view_.dtype));
}

void StackedExperts::DropPages() const {
  if (has_codes()) return MappedFile::DropPages(blocks_->bytes);
  MappedFile::DropPages({static_cast<const std::byte*>(view_.data), static_cast<size_t>(bytes())});
}

}  // namespace outrider
