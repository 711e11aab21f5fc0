#include "common/model/quantized_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/model/gguf_tensors.h"

namespace outrider {
namespace {

using Layout = Quantization::Layout;
using Shape = std::vector<int64_t>;

// Outputs whose codes are written together for layouts that are stored input by input: their cache
// lines stay in L1.
constexpr int64_t kTileOutputs = 64;

int64_t Ceil(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }

uint32_t Word(const SafetensorsEntry& entry, int64_t index) {
  uint32_t word;
  std::memcpy(&word, entry.bytes.data() + 4 * index, sizeof word);  // need not be aligned
  return word;
}

// The outputs, of eight, of the integers in AWQ's words, starting with the lowest.
constexpr std::array<int, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

// Converts an unsigned code to QuantizedMatrix's form, in which 8-bit codes are signed.
uint8_t ToCode(uint32_t code, int bits) {
  return static_cast<uint8_t>(bits == 8 ? code ^ 0x80u : code);
}

// The offset of codes with the unsigned zero point `zero`.
float OffsetOf(uint32_t zero, int bits, float scale) {
  return static_cast<float>((bits == 8 ? 128 : 0) - static_cast<int>(zero)) * scale;
}

CodeType CodesOf(const Quantization& quantization) {
  if (quantization.layout == Layout::kFp8) return CodeType::kFp8E4M3;
  return quantization.bits == 4 ? CodeType::kInt4 : CodeType::kInt8;
}

}  // namespace

struct QuantizedTensors::Part {
  std::string base;  // "model.layers.0.mlp.down_proj."
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t group_size = 0;
  int64_t groups = 0;

  uint8_t* Codes(QuantizedMatrix* matrix, int64_t row) const {
    return matrix->codes.data() + (first_row + row) * columns;
  }
  size_t GroupAt(int64_t row, int64_t group) const {
    return static_cast<size_t>((first_row + row) * groups + group);
  }
};

std::string QuantizedTensors::CodesName(const std::string& name) const {
  const std::string base = name.substr(0, name.size() - std::string_view("weight").size());
  switch (quantization_.layout) {
    case Layout::kPacked: return base + "weight_packed";
    case Layout::kGptq:
    case Layout::kAwq: return base + "qweight";
    case Layout::kNone:
    case Layout::kMxfp4:
    case Layout::kInt8Rows:
    case Layout::kFp8:
    case Layout::kGguf: break;
  }
  return name;
}

bool QuantizedTensors::Holds(const std::string& name) const {
  const SafetensorsEntry* const entry = checkpoint_.Entry(CodesName(name));
  switch (quantization_.layout) {
    case Layout::kNone:
    case Layout::kMxfp4: break;
    case Layout::kInt8Rows: return entry != nullptr && entry->dtype == "I8";
    case Layout::kFp8: return entry != nullptr && entry->dtype == "F8_E4M3";
    case Layout::kPacked:
    case Layout::kGptq:
    case Layout::kAwq: return entry != nullptr;
    case Layout::kGguf: return entry != nullptr && HasCodes(*checkpoint_.Gguf(name));
  }
  return false;
}

Result<const SafetensorsEntry*> QuantizedTensors::Find(const std::string& name,
                                                       std::string_view dtype,
                                                       std::initializer_list<int64_t> shape) {
  const SafetensorsEntry* const entry = checkpoint_.Entry(name);
  if (entry == nullptr) return InvalidArgument("no tensor " + name);
  if (entry->dtype != dtype || entry->shape != Shape(shape)) {
    return InvalidArgument(name + " is " + ShapeText(entry->shape) + " " + entry->dtype +
                           ", config.json asks for " + ShapeText(Shape(shape)) + " " +
                           std::string(dtype));
  }
  bytes_read_ += static_cast<int64_t>(entry->bytes.size());
  return entry;
}

Result<std::vector<float>> QuantizedTensors::FindScales(const std::string& name, int64_t first,
                                                        int64_t second) {
  Result<TensorView> view = checkpoint_.Find(name);
  if (view.status().code() == Code::kNotFound) return InvalidArgument(view.status().message());
  OUTRIDER_TRY(view.status());
  Shape shape = view->shape;
  if (first * second == 1) shape = {1, 1};  // a single scale may have any rank
  if (view->elements() != static_cast<size_t>(first * second) || shape != Shape{first, second}) {
    return InvalidArgument(name + " is " + view->Describe() + ", config.json asks for " +
                           ShapeText(Shape{first, second}));
  }
  std::vector<float> scales(view->elements());
  LoadElements(*view, 0, scales);
  for (size_t i = 0; i < scales.size(); ++i) {
    if (std::isfinite(scales[i]) && scales[i] != 0.f) continue;
    const auto index = static_cast<int64_t>(i);
    const char* const what = scales[i] == 0.f ? "0" : std::isnan(scales[i]) ? "NaN" : "infinite";
    return DataLoss(name + ShapeText(Shape{index / second, index % second}) + " is " + what +
                    "; scales must be finite and not 0: the checkpoint is damaged, fetch or "
                    "convert it again");
  }
  bytes_read_ += static_cast<int64_t>(view->elements() * DtypeBytes(view->dtype));
  return scales;
}

Status QuantizedTensors::Append(const std::string& name, int64_t rows, int64_t columns,
                                QuantizedMatrix* matrix) {
  if (quantization_.layout == Layout::kGguf) return AppendGguf(name, rows, columns, matrix);
  Part part = {.base = name.substr(0, name.size() - std::string_view("weight").size()),
               .first_row = matrix->rows,
               .rows = rows,
               .columns = columns};
  const int asked =
      quantization_.layout == Layout::kFp8 ? quantization_.block_columns : quantization_.group_size;
  part.group_size = asked == 0 ? columns : std::min<int64_t>(asked, columns);
  part.groups = Ceil(columns, part.group_size);
  OUTRIDER_TRY(CheckMemory(CodesName(name), rows, columns));
  matrix->type = CodesOf(quantization_);
  matrix->columns = columns;
  matrix->group_size = part.group_size;
  matrix->rows += rows;
  const auto all_rows = static_cast<size_t>(matrix->rows);
  matrix->codes.resize(all_rows * static_cast<size_t>(columns));
  matrix->scales.resize(all_rows * static_cast<size_t>(part.groups));
  const bool has_offsets = quantization_.layout == Layout::kGptq ||
                           quantization_.layout == Layout::kAwq || quantization_.has_zeros ||
                           matrix->type == CodeType::kInt4;
  if (has_offsets) matrix->offsets.resize(matrix->scales.size());
  switch (quantization_.layout) {
    case Layout::kNone:
    case Layout::kGguf:
    case Layout::kMxfp4: break;
    case Layout::kInt8Rows:
      OUTRIDER_TRY(ReadBytes(part, "I8", matrix));
      return ReadRowScales(part, matrix);
    case Layout::kFp8:
      OUTRIDER_TRY(ReadBytes(part, "F8_E4M3", matrix));
      return ReadFp8Scales(part, matrix);
    case Layout::kPacked:
      OUTRIDER_TRY(ReadPacked(part, matrix));
      OUTRIDER_TRY(ReadPackedScales(part, matrix));
      return ReadOrder(part, "weight_g_idx", matrix);
    case Layout::kGptq:
    case Layout::kAwq:
      OUTRIDER_TRY(ReadByInput(part, matrix));
      OUTRIDER_TRY(ReadScalesByGroup(part, matrix));
      return ReadOrder(part, "g_idx", matrix);
  }
  return Internal("a checkpoint without codes");
}

Status QuantizedTensors::CheckMemory(const std::string& name, int64_t rows, int64_t columns) const {
  constexpr double kMost = 16;  // times the file's; smaller differences are found when it is read
  const SafetensorsEntry* const entry = checkpoint_.Entry(name);
  const double held = entry == nullptr ? 0 : static_cast<double>(entry->bytes.size());
  if (static_cast<double>(rows) * static_cast<double>(columns) <= kMost * held) return Status();
  return InvalidArgument(name + " has " + std::to_string(static_cast<int64_t>(held)) +
                         " bytes, config.json asks for " + ShapeText(Shape{rows, columns}) +
                         " codes");
}

Status QuantizedTensors::AppendGguf(const std::string& name, int64_t rows, int64_t columns,
                                    QuantizedMatrix* matrix) {
  const GgufEntry& entry = *checkpoint_.Gguf(name);
  OUTRIDER_TRY(Find(name, GgmlTypeName(entry.tensor.type), {rows, columns}).status());
  OUTRIDER_TRY(AppendCodes(entry, matrix));
  MappedFile::DropPages(entry.tensor.bytes);
  return Status();
}

// [rows, columns], one byte each.
Status QuantizedTensors::ReadBytes(const Part& part, std::string_view dtype,
                                   QuantizedMatrix* matrix) {
  const std::string name = part.base + "weight";
  OUTRIDER_ASSIGN(const SafetensorsEntry* entry, Find(name, dtype, {part.rows, part.columns}));
  uint8_t* const codes = part.Codes(matrix, 0);
  std::memcpy(codes, entry->bytes.data(), entry->bytes.size());
  MappedFile::DropPages(entry->bytes);
  if (matrix->type != CodeType::kFp8E4M3) return Status();
  uint8_t* const end = codes + entry->bytes.size();
  const uint8_t* const nan =
      std::find_if(codes, end, [](uint8_t code) { return IsNanCode(CodeType::kFp8E4M3, code); });
  if (nan == end) return Status();
  const int64_t index = nan - codes;
  return DataLoss(name + ShapeText(Shape{index / part.columns, index % part.columns}) +
                  " is NaN; weights must be finite: the checkpoint is damaged, fetch or convert it "
                  "again");
}

Status QuantizedTensors::ReadRowScales(const Part& part, QuantizedMatrix* matrix) {
  OUTRIDER_ASSIGN(const std::vector<float> scales,
                  FindScales(part.base + "weight_scale", part.rows, 1));
  std::copy(scales.begin(), scales.end(), matrix->scales.begin() + part.first_row);
  return Status();
}

// One scale per matrix, per output, or per block.
Status QuantizedTensors::ReadFp8Scales(const Part& part, QuantizedMatrix* matrix) {
  // Blocks mostly have "inverse" scales, which multiply the codes despite their name.
  const bool is_inverse =
      quantization_.block_rows > 0 && !checkpoint_.Has(part.base + "weight_scale");
  const std::string name = part.base + (is_inverse ? "weight_scale_inv" : "weight_scale");
  int64_t rows_of_scale = quantization_.block_rows;
  if (rows_of_scale == 0) {
    const SafetensorsEntry* const entry = checkpoint_.Entry(name);
    const bool by_output = entry != nullptr && !entry->shape.empty() && entry->shape[0] > 1;
    rows_of_scale = by_output ? 1 : part.rows;
  }
  OUTRIDER_ASSIGN(const std::vector<float> scales,
                  FindScales(name, Ceil(part.rows, rows_of_scale), part.groups));
  for (int64_t row = 0; row < part.rows; ++row) {
    const float* const row_scales = scales.data() + row / rows_of_scale * part.groups;
    std::copy_n(row_scales, part.groups, &matrix->scales[part.GroupAt(row, 0)]);
  }
  return Status();
}

// "weight_packed" [rows, ceil(columns / n)]: n codes per word, the first in the lowest bits.
Status QuantizedTensors::ReadPacked(const Part& part, QuantizedMatrix* matrix) {
  const int bits = quantization_.bits, per_word = 32 / bits;
  const int64_t words = Ceil(part.columns, per_word);
  OUTRIDER_ASSIGN(const SafetensorsEntry* shape, Find(part.base + "weight_shape", "I64", {2}));
  std::array<int64_t, 2> sides;
  std::memcpy(sides.data(), shape->bytes.data(), sizeof sides);
  if (sides != std::array{part.rows, part.columns}) {
    return InvalidArgument(part.base + "weight_shape is " + ShapeText(sides) +
                           ", config.json asks for " + ShapeText(Shape{part.rows, part.columns}));
  }
  OUTRIDER_ASSIGN(const SafetensorsEntry* entry,
                  Find(part.base + "weight_packed", "I32", {part.rows, words}));
  const uint32_t mask = (1u << bits) - 1;
  for (int64_t row = 0; row < part.rows; ++row) {
    uint8_t* const codes = part.Codes(matrix, row);
    for (int64_t k = 0; k < part.columns; ++k) {
      const uint32_t word = Word(*entry, row * words + k / per_word);
      codes[k] = ToCode(word >> bits * (k % per_word) & mask, bits);
    }
  }
  MappedFile::DropPages(entry->bytes);
  return Status();
}

// "weight_scale" [rows, groups], "weight_zero_point" [ceil(rows / n), groups]: n rows per word.
Status QuantizedTensors::ReadPackedScales(const Part& part, QuantizedMatrix* matrix) {
  OUTRIDER_ASSIGN(const std::vector<float> scales,
                  FindScales(part.base + "weight_scale", part.rows, part.groups));
  std::copy(scales.begin(), scales.end(),
            matrix->scales.begin() + static_cast<ptrdiff_t>(part.GroupAt(0, 0)));
  if (matrix->offsets.empty()) return Status();
  const int bits = quantization_.bits, per_word = 32 / bits;
  const SafetensorsEntry* zeros = nullptr;
  if (quantization_.has_zeros) {
    OUTRIDER_ASSIGN(zeros, Find(part.base + "weight_zero_point", "I32",
                                {Ceil(part.rows, per_word), part.groups}));
  }
  const uint32_t mask = (1u << bits) - 1;
  for (int64_t row = 0; row < part.rows; ++row) {
    for (int64_t group = 0; group < part.groups; ++group) {
      uint32_t zero = 1u << (bits - 1);
      if (zeros != nullptr) {
        const uint32_t word = Word(*zeros, row / per_word * part.groups + group);
        zero = word >> bits * (row % per_word) & mask;
      }
      const size_t group_index = part.GroupAt(row, group);
      matrix->offsets[group_index] = OffsetOf(zero, bits, matrix->scales[group_index]);
    }
  }
  return Status();
}

// GPTQ's "qweight" [columns / n, rows] has n inputs per word, AWQ's [columns, rows / 8] eight
// outputs in kAwqOrder.
Status QuantizedTensors::ReadByInput(const Part& part, QuantizedMatrix* matrix) {
  const int bits = quantization_.bits, per_word = 32 / bits;
  const uint32_t mask = (1u << bits) - 1;
  const bool is_awq = quantization_.layout == Layout::kAwq;
  if ((is_awq ? part.rows : part.columns) % per_word != 0) {
    return InvalidArgument(part.base + "qweight: " + ShapeText(Shape{part.rows, part.columns}) +
                           " does not fill its words");
  }
  const std::string name = part.base + "qweight";
  OUTRIDER_ASSIGN(const SafetensorsEntry* entry,
                  is_awq ? Find(name, "I32", {part.columns, part.rows / per_word})
                         : Find(name, "I32", {part.columns / per_word, part.rows}));
  for (int64_t first = 0; first < part.rows; first += kTileOutputs) {
    const int64_t end = std::min(first + kTileOutputs, part.rows);
    if (is_awq) {
      for (int64_t k = 0; k < part.columns; ++k) {
        for (int64_t row = first; row < end; row += per_word) {
          const uint32_t word = Word(*entry, (k * part.rows + row) / per_word);
          for (size_t i = 0; i < kAwqOrder.size(); ++i) {
            part.Codes(matrix, row + kAwqOrder[i])[k] = static_cast<uint8_t>(word >> 4 * i & mask);
          }
        }
      }
    } else {
      for (int64_t k = 0; k < part.columns; k += per_word) {
        for (int64_t row = first; row < end; ++row) {
          const uint32_t word = Word(*entry, k / per_word * part.rows + row);
          uint8_t* const codes = part.Codes(matrix, row) + k;
          for (int i = 0; i < per_word; ++i) codes[i] = ToCode(word >> bits * i & mask, bits);
        }
      }
    }
  }
  MappedFile::DropPages(entry->bytes);
  return Status();
}

// "scales" [groups, rows], "qzeros" [groups, rows / n] in the order of the codes.
Status QuantizedTensors::ReadScalesByGroup(const Part& part, QuantizedMatrix* matrix) {
  const int bits = quantization_.bits, per_word = 32 / bits;
  const uint32_t mask = (1u << bits) - 1;
  if (part.rows % per_word != 0) {
    return InvalidArgument(part.base + "qzeros: " + std::to_string(part.rows) +
                           " outputs do not fill its words");
  }
  OUTRIDER_ASSIGN(const std::vector<float> scales,
                  FindScales(part.base + "scales", part.groups, part.rows));
  OUTRIDER_ASSIGN(const SafetensorsEntry* zeros,
                  Find(part.base + "qzeros", "I32", {part.groups, part.rows / per_word}));
  const bool is_awq = quantization_.layout == Layout::kAwq;
  for (int64_t group = 0; group < part.groups; ++group) {
    for (int64_t row = 0; row < part.rows; ++row) {
      const uint32_t word = Word(*zeros, (group * part.rows + row) / per_word);
      const auto word_slot = static_cast<size_t>(row % per_word);
      size_t slot = word_slot;
      if (is_awq) {
        const auto* const found = std::find(kAwqOrder.begin(), kAwqOrder.end(), word_slot);
        slot = static_cast<size_t>(found - kAwqOrder.begin());
      }
      uint32_t zero = word >> static_cast<size_t>(bits) * slot & mask;
      // As in GPTQ's own code, adding one wraps around.
      if (quantization_.stores_zeros_less_one) zero = (zero + 1) & mask;
      const size_t group_index = part.GroupAt(row, group);
      matrix->scales[group_index] = scales[static_cast<size_t>(group * part.rows + row)];
      matrix->offsets[group_index] = OffsetOf(zero, bits, matrix->scales[group_index]);
    }
  }
  return Status();
}

// Inputs that name their groups (act-order) are sorted by group, so that groups are contiguous.
Status QuantizedTensors::ReadOrder(const Part& part, const std::string& name,
                                   QuantizedMatrix* matrix) {
  std::vector<int32_t> order;
  if (quantization_.has_order || checkpoint_.Has(part.base + name)) {
    OUTRIDER_ASSIGN(const SafetensorsEntry* entry, Find(part.base + name, "I32", {part.columns}));
    std::vector<std::vector<int32_t>> group_inputs(static_cast<size_t>(part.groups));
    for (int64_t k = 0; k < part.columns; ++k) {
      const auto group = static_cast<int32_t>(Word(*entry, k));
      if (group < 0 || group >= part.groups) {
        return InvalidArgument(part.base + name + ShapeText(Shape{k}) + " is " +
                               std::to_string(group) + ", but there are " +
                               std::to_string(part.groups) + " groups");
      }
      group_inputs[static_cast<size_t>(group)].push_back(static_cast<int32_t>(k));
    }
    for (int64_t group = 0; group < part.groups; ++group) {
      const std::vector<int32_t>& inputs = group_inputs[static_cast<size_t>(group)];
      const int64_t wanted = std::min(part.group_size, part.columns - group * part.group_size);
      if (static_cast<int64_t>(inputs.size()) != wanted) {
        return InvalidArgument(part.base + name + ": group " + std::to_string(group) + " has " +
                               std::to_string(inputs.size()) + " inputs, not " +
                               std::to_string(wanted));
      }
      order.insert(order.end(), inputs.begin(), inputs.end());
    }
    if (std::is_sorted(order.begin(), order.end())) order.clear();
  }
  if (part.first_row > 0 && order != matrix->column_order) {
    return Unimplemented(part.base + name +
                         ": its inputs have another order than those of the matrices that it is "
                         "stacked with");
  }
  matrix->column_order = std::move(order);
  if (matrix->column_order.empty()) return Status();
  std::vector<uint8_t> sorted(static_cast<size_t>(part.columns));
  for (int64_t row = 0; row < part.rows; ++row) {
    uint8_t* const codes = part.Codes(matrix, row);
    for (size_t k = 0; k < sorted.size(); ++k) sorted[k] = codes[matrix->column_order[k]];
    std::copy(sorted.begin(), sorted.end(), codes);
  }
  return Status();
}

}  // namespace outrider
