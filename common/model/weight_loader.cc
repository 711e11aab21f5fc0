#include "common/model/weight_loader.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "common/base/log.h"
#include "common/base/mapped_file.h"
#include "common/model/gguf_tensors.h"
#include "common/model/weight_types.h"

namespace outrider {
namespace {

using Part = WeightLoader::Part;

std::string Join(const std::set<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

// "q_proj.weight and those it is stacked with"
std::string Describe(const std::vector<Part>& parts) {
  return parts.front().name + (parts.size() > 1 ? " and those it is stacked with" : "");
}

// The tensor has been packed, so its part of the file can leave memory.
void DropPages(const TensorView& view) {
  MappedFile::DropPages(
      {static_cast<const std::byte*>(view.data), view.elements() * DtypeBytes(view.dtype)});
}

std::vector<float> Widen(const TensorView& view) {
  std::vector<float> values(view.elements());
  LoadElements(view, 0, values);
  return values;
}

Status CheckCodesFit(const QuantizedMatrix& matrix, const std::vector<Part>& parts,
                     WeightType kept) {
  std::vector<float> values(static_cast<size_t>(matrix.columns));
  for (int64_t row = 0; row < matrix.rows; ++row) {
    matrix.WidenRow(row, values);
    const TensorView view = {values.data(), Dtype::kF32, {1, matrix.columns}};
    OUTRIDER_TRY(CheckFits(Describe(parts) + ", row " + std::to_string(row), view, kept));
  }
  return Status();
}

}  // namespace

WeightLoader::WeightLoader(const ModelConfig& config, const Checkpoint& checkpoint, WeightType type,
                           Backend& backend, const LoadProgress& progress)
    : config_(config),
      checkpoint_(checkpoint),
      codes_(checkpoint, config.quantization),
      type_(type),
      backend_(backend),
      progress_(progress),
      all_bytes_(checkpoint.bytes()) {}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::LoadMatrix(const std::string& name,
                                                               int64_t rows, int64_t columns) {
  return LoadMatrix({{name, rows}}, columns);
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::LoadMatrix(const std::vector<Part>& parts,
                                                               int64_t columns) {
  return Load(parts, columns, type_);
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::LoadRouter(const std::string& name,
                                                               int64_t rows, int64_t columns) {
  if (codes_.Holds(name)) {
    return Unimplemented(name + " is quantized; the router of a mixture must be floats");
  }
  return Load({{name, rows}}, columns, WeightType::kF32);
}

Result<std::unique_ptr<ExpertMatrices>> WeightLoader::LoadExperts(
    int experts, int64_t columns, const std::function<std::vector<Part>(int expert)>& parts) {
  std::vector<std::unique_ptr<PackedMatrix>> matrices;
  for (int e = 0; e < experts; ++e) {
    OUTRIDER_ASSIGN(std::unique_ptr<PackedMatrix> matrix, LoadMatrix(parts(e), columns));
    matrices.push_back(std::move(matrix));
  }
  return backend_.GroupExperts(std::move(matrices));
}

Result<std::unique_ptr<ExpertMatrices>> WeightLoader::LoadStackedExperts(
    const std::string& name, const StackedShape& shape) {
  OUTRIDER_ASSIGN(const StackedExperts stacked, StackedExperts::Find(checkpoint_, name, shape));
  if (!stacked.has_codes()) {
    OUTRIDER_TRY(CheckFits(name, stacked.view(), type_));
    stored_.insert(DtypeName(stacked.view().dtype));
    rounds_ = rounds_ || LosesPrecision(stacked.view().dtype, type_);
  }
  const std::vector<Part> parts = {{name, shape.rows}};
  std::vector<std::unique_ptr<PackedMatrix>> matrices;
  for (int e = 0; e < shape.experts; ++e) {
    std::unique_ptr<PackedMatrix> packed;
    if (stacked.has_codes()) {
      stored_.insert("mxfp4");
      OUTRIDER_ASSIGN(packed, PackCodes(stacked.Codes(e), parts));
    } else {
      const std::vector<float> values = stacked.Floats(e);
      OUTRIDER_ASSIGN(
          packed,
          Pack(TensorView{values.data(), Dtype::kF32, {shape.rows, shape.columns}}, type_, parts));
    }
    kept_.insert(WeightTypeName(packed->type()));
    matrices.push_back(std::move(packed));
  }
  stacked.DropPages();
  done_bytes_ += stacked.bytes();
  ReportProgress();
  return backend_.GroupExperts(std::move(matrices));
}

Result<std::unique_ptr<Buffer>> WeightLoader::LoadStackedBiases(const std::string& name,
                                                                const StackedShape& shape) {
  std::vector<std::byte> storage;
  OUTRIDER_ASSIGN(const TensorView view,
                  Find(name, {shape.experts, shape.rows}, Dtype::kF32, &storage));
  OUTRIDER_TRY(CheckFits(name, view, WeightType::kF32));
  const std::vector<float> stored = Widen(view);
  std::vector<float> values;
  for (int64_t first = 0; first < shape.experts * shape.rows; first += shape.rows) {
    for (int64_t row = 0; row < shape.rows; ++row) {
      values.push_back(stored[static_cast<size_t>(first + StackedRow(shape, row))]);
    }
  }
  return Upload(values);
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::LoadTokenTable(const std::string& name,
                                                                   int64_t rows, int64_t columns) {
  return Load({{name, rows}}, columns, type_ == WeightType::kW4A16 ? WeightType::kW8A16 : type_);
}

Result<std::unique_ptr<Buffer>> WeightLoader::LoadVector(
    const std::vector<std::pair<std::string, int64_t>>& names_and_sizes, float offset) {
  std::vector<float> values;
  for (const auto& [name, size] : names_and_sizes) {
    std::vector<std::byte> storage;
    OUTRIDER_ASSIGN(const TensorView view, Find(name, {size}, Dtype::kF32, &storage));
    OUTRIDER_TRY(CheckFits(name, view, WeightType::kF32));
    const std::vector<float> part = Widen(view);
    values.insert(values.end(), part.begin(), part.end());
  }
  for (float& value : values) value += offset;
  return Upload(values);
}

Result<std::unique_ptr<Buffer>> WeightLoader::LoadNorm(const std::string& name, int64_t size) {
  return LoadVector({{name + ".weight", size}}, config_.norm_gain_offset);
}

void WeightLoader::LogTypes() const {
  const bool asked = !IsFloats(type_);
  std::string message = "weights are kept as they are stored";
  if (rounds_) {
    message = asked ? std::string("weights are rounded, as --weights ") +
                          (type_ == WeightType::kW4A16 ? "int4" : "int8") + " asks"
                    : "weights are rounded; --weights f32 keeps them as they are stored";
  }
  Log(rounds_ && !asked ? LogLevel::kWarning : LogLevel::kInfo, message,
      {{"stored", Join(stored_)}, {"kept", Join(kept_)}});
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::Load(const std::vector<Part>& parts,
                                                         int64_t columns, WeightType type) {
  const auto coded = std::count_if(parts.begin(), parts.end(),
                                   [&](const Part& part) { return codes_.Holds(part.name); });
  const bool is_gguf = config_.quantization.layout == Quantization::Layout::kGguf;
  bool all_coded = coded == static_cast<ptrdiff_t>(parts.size());
  if (is_gguf) {
    all_coded = all_coded && KeepsGgufCodes(parts);
  } else if (coded > 0 && !all_coded) {
    return Unimplemented(Describe(parts) + ": some are quantized, some are not");
  }
  OUTRIDER_ASSIGN(std::unique_ptr<PackedMatrix> packed,
                  all_coded ? PackCodes(parts, columns) : PackFloats(parts, columns, type));
  for (const Part& part : parts) {
    const GgufEntry* const gguf = checkpoint_.Gguf(part.name);
    const std::string stored =
        gguf == nullptr ? "" : std::string(GgmlTypeName(gguf->tensor.type)) + " as ";
    kept_.insert(stored + WeightTypeName(packed->type()));
  }
  ReportProgress();
  return packed;
}

// Parts of several types can be stacked if all are integers. A device would widen codes again for
// each product, so there they become floats once, except for MXFP4, the type of experts, of which a
// row takes few.
bool WeightLoader::KeepsGgufCodes(const std::vector<Part>& parts) const {
  const auto is_mxfp4 = [&](const Part& part) {
    return checkpoint_.Gguf(part.name)->tensor.type == GgmlType::kMxfp4;
  };
  if (std::all_of(parts.begin(), parts.end(), is_mxfp4)) return true;
  return backend_.device() == nullptr && std::none_of(parts.begin(), parts.end(), is_mxfp4);
}

bool WeightLoader::HaveOneGgufType(const std::vector<Part>& parts) const {
  const GgmlType first = checkpoint_.Gguf(parts.front().name)->tensor.type;
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return checkpoint_.Gguf(part.name)->tensor.type == first;
  });
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::Pack(const TensorView& values, WeightType type,
                                                         const std::vector<Part>& parts) {
  Result<std::unique_ptr<PackedMatrix>> packed = backend_.Pack(values, type);
  if (!packed.ok()) return packed.status().Annotate(Describe(parts));
  backend_.Wait();
  return packed;
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::PackFloats(const std::vector<Part>& parts,
                                                               int64_t columns, WeightType type) {
  std::vector<TensorView> views;
  TensorView stacked;
  stacked.shape = {0, columns};
  bool same_dtype = true;
  // For parts that the file has in blocks.
  std::vector<std::vector<std::byte>> storage(parts.size());
  const Dtype blocks_as = type == WeightType::kBf16 ? Dtype::kBf16 : Dtype::kF32;
  for (const Part& part : parts) {
    OUTRIDER_ASSIGN(TensorView view,
                    Find(part.name, {part.rows, columns}, blocks_as, &storage[views.size()]));
    OUTRIDER_TRY(CheckFits(part.name, view, type));
    const bool in_blocks = NoteStored(part.name, DtypeName(view.dtype));
    rounds_ =
        rounds_ || LosesPrecision(view.dtype, type) || (in_blocks && type != WeightType::kF32);
    stacked.shape[0] += part.rows;
    views.push_back(std::move(view));
    same_dtype = same_dtype && views.back().dtype == views.front().dtype;
  }
  if (views.size() == 1) {
    OUTRIDER_ASSIGN(std::unique_ptr<PackedMatrix> packed, Pack(views.front(), type, parts));
    if (storage.front().empty()) DropPages(views.front());
    return packed;
  }
  stacked.dtype = same_dtype ? views.front().dtype : Dtype::kF32;
  std::vector<std::byte> bytes(stacked.elements() * DtypeBytes(stacked.dtype));
  std::byte* out = bytes.data();
  for (size_t i = 0; i < views.size(); ++i) {
    const TensorView& view = views[i];
    const size_t view_bytes = view.elements() * DtypeBytes(stacked.dtype);
    if (same_dtype) {
      std::memcpy(out, view.data, view_bytes);
    } else {
      std::memcpy(out, Widen(view).data(), view_bytes);
    }
    out += view_bytes;
    if (storage[i].empty()) DropPages(view);
    storage[i] = {};
  }
  stacked.data = bytes.data();
  return Pack(stacked, type, parts);
}

Result<QuantizedMatrix> WeightLoader::ReadCodes(const std::vector<Part>& parts, int64_t columns) {
  const bool is_gguf = config_.quantization.layout == Quantization::Layout::kGguf;
  const bool one_type = !is_gguf || HaveOneGgufType(parts);
  std::vector<QuantizedMatrix> matrices(1);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && !one_type) matrices.emplace_back();
    OUTRIDER_TRY(codes_.Append(parts[i].name, parts[i].rows, columns, &matrices.back()));
  }
  return one_type ? std::move(matrices.front()) : StackRows(matrices);
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::PackCodes(const std::vector<Part>& parts,
                                                              int64_t columns) {
  OUTRIDER_ASSIGN(const QuantizedMatrix matrix, ReadCodes(parts, columns));
  for (const Part& part : parts) NoteStored(part.name, CodeTypeName(matrix.type));
  return PackCodes(matrix, parts);
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::PackCodes(const QuantizedMatrix& matrix,
                                                              const std::vector<Part>& parts) {
  const WeightType floats = IsFloats(type_) ? type_ : WeightType::kBf16;
  if (floats == WeightType::kF16) OUTRIDER_TRY(CheckCodesFit(matrix, parts, floats));
  const WeightType kept = KeptTypeOfCodes(matrix, type_, config_.quantization.rounds_activations);
  Result<std::unique_ptr<PackedMatrix>> packed = backend_.Pack(matrix, kept, floats);
  backend_.Wait();
  if (packed.ok()) return packed;
  if (packed.status().code() != Code::kUnimplemented) {
    return packed.status().Annotate(Describe(parts));
  }
  rounds_ = rounds_ || floats != WeightType::kF32;
  OUTRIDER_TRY(CheckCodesFit(matrix, parts, floats));
  std::vector<float> values(matrix.codes.size());
  const auto width = static_cast<size_t>(matrix.columns);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    matrix.WidenRowInOrder(row, std::span(values).subspan(static_cast<size_t>(row) * width));
  }
  return Pack(TensorView{values.data(), Dtype::kF32, {matrix.rows, matrix.columns}}, floats, parts);
}

bool WeightLoader::NoteStored(const std::string& name, const char* type) {
  const GgufEntry* const gguf = checkpoint_.Gguf(name);
  stored_.insert(gguf == nullptr ? type : GgmlTypeName(gguf->tensor.type));
  return gguf != nullptr && GgmlBlockElements(gguf->tensor.type) > 1;
}

Result<std::unique_ptr<Buffer>> WeightLoader::Upload(const std::vector<float>& values) {
  OUTRIDER_ASSIGN(std::unique_ptr<Buffer> buffer, backend_.Allocate(values.size() * sizeof(float)));
  backend_.CopyIn(buffer->data(), values.data(), values.size() * sizeof(float));
  backend_.Wait();
  return buffer;
}

Result<TensorView> WeightLoader::Find(const std::string& name, const std::vector<int64_t>& shape,
                                      Dtype blocks_as, std::vector<std::byte>* storage) {
  Result<TensorView> view = checkpoint_.FindWidened(name, blocks_as, storage);
  if (!view.ok()) {
    // A tensor missing from an existing file means a bad model, not a missing one.
    return view.status().code() == Code::kNotFound ? InvalidArgument(view.status().message())
                                                   : view.status();
  }
  if (view->shape != shape) {
    TensorView expected = *view;
    expected.shape = shape;
    return InvalidArgument(name + " is " + view->Describe() + ", config.json asks for " +
                           expected.Describe());
  }
  done_bytes_ += static_cast<int64_t>(checkpoint_.Entry(name)->bytes.size());
  return view;
}

void WeightLoader::ReportProgress() const {
  if (progress_) progress_(done_bytes_ + codes_.bytes_read(), all_bytes_);
}

}  // namespace outrider
