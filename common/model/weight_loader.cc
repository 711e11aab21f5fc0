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

// The rows that a part takes of its tensor.
std::vector<Range> RowsOf(const Part& part) {
  return part.taken.empty() ? std::vector<Range>{{0, part.rows}} : Joined(part.taken);
}

// "down_proj.weight", or for a part of it "down_proj.weight (its rows 0 to 64, columns 48 to 96)",
// to which indices of elements refer.
std::string Describe(const Part& part, Range rows, Range columns, int64_t all_columns) {
  if (rows.count == part.rows && columns.count == all_columns) return part.name;
  const auto show = [](Range range) {
    return std::to_string(range.first) + " to " + std::to_string(range.first + range.count);
  };
  return part.name + " (its rows " + show(rows) + ", columns " + show(columns) + ")";
}

// Some floats of a matrix: in the mapped file, in `storage`, or in memory of the caller.
struct Piece {
  TensorView view;
  std::vector<std::byte> storage;
  bool is_mapped = false;
};

// One matrix of the pieces' rows, which have equal columns. Pages of the file are dropped once they
// are copied.
Piece StackPieces(std::vector<Piece> pieces) {
  if (pieces.size() == 1) return std::move(pieces.front());
  Piece out;
  out.view = {nullptr, pieces.front().view.dtype, {0, pieces.front().view.shape[1]}};
  const bool same_dtype = std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return piece.view.dtype == out.view.dtype;
  });
  if (!same_dtype) out.view.dtype = Dtype::kF32;
  for (const Piece& piece : pieces) out.view.shape[0] += piece.view.shape[0];
  out.storage.resize(out.view.elements() * DtypeBytes(out.view.dtype));
  std::byte* next = out.storage.data();
  for (Piece& piece : pieces) {
    const size_t bytes = piece.view.elements() * DtypeBytes(out.view.dtype);
    if (same_dtype) {
      std::memcpy(next, piece.view.data, bytes);
    } else {
      std::memcpy(next, Widen(piece.view).data(), bytes);
    }
    next += bytes;
    if (piece.is_mapped) DropPages(piece.view);
    piece = {};
  }
  out.view.data = out.storage.data();
  return out;
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

Result<std::unique_ptr<PackedMatrix>> WeightLoader::LoadMatrix(const std::vector<Part>& parts,
                                                               int64_t columns,
                                                               std::optional<Range> taken) {
  return Load({parts, columns, taken.value_or(Range{0, columns})}, type_);
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::LoadRouter(const std::string& name,
                                                               int64_t rows, int64_t columns) {
  if (codes_.Holds(name)) {
    return Unimplemented(name + " is quantized; the router of a mixture must be floats");
  }
  return Load({{{name, rows, {}}}, columns, {0, columns}}, WeightType::kF32);
}

Result<std::unique_ptr<ExpertMatrices>> WeightLoader::LoadExperts(
    int experts, int64_t columns, const std::function<std::vector<Part>(int expert)>& parts,
    std::optional<Range> taken) {
  std::vector<std::unique_ptr<PackedMatrix>> matrices;
  for (int e = 0; e < experts; ++e) {
    OUTRIDER_ASSIGN(std::unique_ptr<PackedMatrix> matrix, LoadMatrix(parts(e), columns, taken));
    matrices.push_back(std::move(matrix));
  }
  return backend_.GroupExperts(std::move(matrices));
}

Result<std::unique_ptr<ExpertMatrices>> WeightLoader::LoadStackedExperts(
    const std::string& name, const StackedShape& shape, const std::vector<Range>& rows,
    Range columns) {
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
      Result<QuantizedMatrix> codes = SliceOf(stacked.Codes(e), rows, columns);
      if (!codes.ok()) return codes.status().Annotate(name);
      OUTRIDER_ASSIGN(packed, PackCodes(*codes, parts));
    } else {
      const std::vector<float> values = stacked.Floats(e);
      const TensorView all = {values.data(), Dtype::kF32, {shape.rows, shape.columns}};
      std::vector<Piece> pieces;
      for (const Range& range : Joined(rows)) {
        Piece piece;
        piece.view = SliceOf(all, range, columns, &piece.storage);
        pieces.push_back(std::move(piece));
      }
      OUTRIDER_ASSIGN(packed, Pack(StackPieces(std::move(pieces)).view, type_, parts));
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
                                                                const StackedShape& shape,
                                                                const std::vector<Range>& rows) {
  std::vector<std::byte> storage;
  OUTRIDER_ASSIGN(const TensorView view,
                  Find(name, {shape.experts, shape.rows}, Dtype::kF32, &storage));
  OUTRIDER_TRY(CheckFits(name, view, WeightType::kF32));
  const std::vector<float> stored = Widen(view);
  std::vector<float> values;
  for (int64_t first = 0; first < shape.experts * shape.rows; first += shape.rows) {
    for (const Range& range : rows) {
      for (int64_t row = range.first; row < range.first + range.count; ++row) {
        values.push_back(stored[static_cast<size_t>(first + StackedRow(shape, row))]);
      }
    }
  }
  return Upload(values);
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::LoadTokenTable(const Part& part,
                                                                   int64_t columns) {
  return Load({{part}, columns, {0, columns}},
              type_ == WeightType::kW4A16 ? WeightType::kW8A16 : type_);
}

Result<std::unique_ptr<Buffer>> WeightLoader::LoadVector(const std::vector<Part>& parts,
                                                         float offset) {
  std::vector<float> values;
  for (const Part& part : parts) {
    std::vector<std::byte> storage;
    OUTRIDER_ASSIGN(const TensorView view, Find(part.name, {part.rows}, Dtype::kF32, &storage));
    OUTRIDER_TRY(CheckFits(part.name, view, WeightType::kF32));
    const std::vector<float> all = Widen(view);
    for (const Range& range : RowsOf(part)) {
      const auto first = all.begin() + range.first;
      values.insert(values.end(), first, first + range.count);
    }
  }
  for (float& value : values) value += offset;
  return Upload(values);
}

Result<std::unique_ptr<Buffer>> WeightLoader::LoadNorm(const std::string& name, int64_t size) {
  return LoadVector({{name + ".weight", size, {}}}, config_.norm_gain_offset);
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

Result<std::unique_ptr<PackedMatrix>> WeightLoader::Load(const Wanted& wanted, WeightType type) {
  const std::vector<Part>& parts = wanted.parts;
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
                  all_coded ? PackCodes(wanted) : PackFloats(wanted, type));
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

Result<std::unique_ptr<PackedMatrix>> WeightLoader::PackFloats(const Wanted& wanted,
                                                               WeightType type) {
  std::vector<Piece> pieces;
  std::vector<std::vector<std::byte>> kept;  // what pieces are views of
  const Dtype blocks_as = type == WeightType::kBf16 ? Dtype::kBf16 : Dtype::kF32;
  for (const Part& part : wanted.parts) {
    std::vector<std::byte> widened;  // for parts that the file has in blocks
    OUTRIDER_ASSIGN(TensorView view,
                    Find(part.name, {part.rows, wanted.columns}, blocks_as, &widened));
    const bool is_mapped = widened.empty();
    const bool in_blocks = NoteStored(part.name, DtypeName(view.dtype));
    rounds_ =
        rounds_ || LosesPrecision(view.dtype, type) || (in_blocks && type != WeightType::kF32);
    const std::vector<Range> ranges = RowsOf(part);
    for (const Range& rows : ranges) {
      Piece piece;
      piece.view = SliceOf(view, rows, wanted.taken, &piece.storage);
      piece.is_mapped = is_mapped && piece.storage.empty();
      OUTRIDER_TRY(CheckFits(Describe(part, rows, wanted.taken, wanted.columns), piece.view, type));
      pieces.push_back(std::move(piece));
    }
    if (!is_mapped && wanted.taken.count == wanted.columns) kept.push_back(std::move(widened));
    if (is_mapped && wanted.taken.count < wanted.columns) DropPages(view);
  }
  const Piece stacked = StackPieces(std::move(pieces));
  OUTRIDER_ASSIGN(std::unique_ptr<PackedMatrix> packed, Pack(stacked.view, type, wanted.parts));
  if (stacked.is_mapped) DropPages(stacked.view);
  return packed;
}

Result<QuantizedMatrix> WeightLoader::ReadCodes(const Wanted& wanted) {
  const std::vector<Part>& parts = wanted.parts;
  const bool is_gguf = config_.quantization.layout == Quantization::Layout::kGguf;
  const bool one_type = !is_gguf || HaveOneGgufType(parts);
  std::vector<QuantizedMatrix> matrices(1);
  std::vector<Range> rows;
  int64_t rows_before = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && !one_type) matrices.emplace_back();
    OUTRIDER_TRY(codes_.Append(parts[i].name, parts[i].rows, wanted.columns, &matrices.back()));
    for (const Range& range : RowsOf(parts[i])) {
      rows.push_back({rows_before + range.first, range.count});
    }
    rows_before += parts[i].rows;
  }
  QuantizedMatrix stacked = one_type ? std::move(matrices.front()) : StackRows(matrices);
  Result<QuantizedMatrix> slice = SliceOf(std::move(stacked), rows, wanted.taken);
  return slice.ok() ? std::move(slice) : slice.status().Annotate(Describe(parts));
}

Result<std::unique_ptr<PackedMatrix>> WeightLoader::PackCodes(const Wanted& wanted) {
  OUTRIDER_ASSIGN(const QuantizedMatrix matrix, ReadCodes(wanted));
  for (const Part& part : wanted.parts) NoteStored(part.name, CodeTypeName(matrix.type));
  return PackCodes(matrix, wanted.parts);
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
