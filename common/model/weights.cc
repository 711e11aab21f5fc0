#include "common/model/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/base/mapped_file.h"
#include "common/model/gguf_tensors.h"
#include "common/model/quantized_tensors.h"
#include "common/model/stacked_experts.h"

namespace outrider {
namespace {

using Shape = std::vector<int64_t>;

const char* WeightTypeName(WeightType type) {
  switch (type) {
    case WeightType::kBf16: return "bf16";
    case WeightType::kF16: return "f16";
    case WeightType::kF32: return "f32";
    case WeightType::kW8A16: return "w8a16";
    case WeightType::kW8A8: return "w8a8";
    case WeightType::kW4A16: return "w4a16";
    case WeightType::kFp8: return "fp8";
    case WeightType::kMxfp4: return "mxfp4";
  }
  return "unknown";
}

// The smallest magnitude that is rounded to infinity.
float LimitOf(WeightType type) {
  switch (type) {
    case WeightType::kF16: return 65520.f;
    case WeightType::kBf16: return std::bit_cast<float>(0x7f7f8000u);
    case WeightType::kF32:
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kW4A16:
    case WeightType::kFp8:
    case WeightType::kMxfp4: break;
  }
  return std::numeric_limits<float>::infinity();
}

// The values of --weights that can represent numbers which `type` cannot.
const char* WiderThan(WeightType type) {
  switch (type) {
    case WeightType::kF16: return "bf16 or f32";
    case WeightType::kBf16:
    case WeightType::kF32:
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kW4A16:
    case WeightType::kFp8:
    case WeightType::kMxfp4: break;
  }
  return "f32";
}

bool Rounds(Dtype stored, WeightType kept) {
  switch (kept) {
    case WeightType::kF32: return false;
    case WeightType::kBf16: return stored != Dtype::kBf16;
    case WeightType::kF16: return stored != Dtype::kF16;
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kW4A16:
    case WeightType::kFp8:
    case WeightType::kMxfp4: return true;
  }
  return true;
}

bool IsFloats(WeightType type) {
  return type == WeightType::kF32 || type == WeightType::kF16 || type == WeightType::kBf16;
}

// The type in which a checkpoint's codes are kept, given `asked`, the value of --weights.
WeightType KeptAs(const QuantizedMatrix& matrix, WeightType asked, bool rounds_activations) {
  switch (matrix.type) {
    case CodeType::kInt4: return WeightType::kW4A16;
    case CodeType::kFp8E4M3: return WeightType::kFp8;
    case CodeType::kFp4E2M1: return WeightType::kMxfp4;
    case CodeType::kInt8: break;
  }
  const bool is_plain = matrix.groups() == 1 && matrix.offsets.empty();
  const bool rounds = asked == WeightType::kW8A8 || rounds_activations;
  return rounds && is_plain ? WeightType::kW8A8 : WeightType::kW8A16;
}

// "[12, 345]": the coordinates of element `index`.
std::string Coordinates(const Shape& shape, size_t index) {
  std::string text;
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    const std::string at = std::to_string(index % static_cast<size_t>(*size));
    text.insert(0, text.empty() ? at : at + ", ");
    index /= static_cast<size_t>(*size);
  }
  return "[" + text + "]";
}

// A NaN in a weight turns every text into the same garbage; if it is not found here, it never is.
Status CheckFits(const std::string& name, const TensorView& view, WeightType kept) {
  const size_t index = FindUnfit(view, LimitOf(kept));
  if (index == view.elements()) return Status();
  const float value = LoadElement(view, index);
  const std::string element = name + Coordinates(view.shape, index) + " is ";
  if (!std::isfinite(value)) {
    return DataLoss(element + (std::isnan(value) ? "NaN" : "infinite") +
                    "; weights must be finite: the checkpoint is damaged, fetch or convert it "
                    "again");
  }
  return InvalidArgument(element + std::to_string(value) + ", more than " + WeightTypeName(kept) +
                         " can hold; use --weights " + WiderThan(kept));
}

// A part of a matrix: the tensor with some of its rows.
struct Part {
  std::string name;
  int64_t rows = 0;
};

class Loader {
 public:
  Loader(const ModelConfig& config, const Checkpoint& checkpoint, WeightType type, Backend& backend,
         const LoadProgress& progress)
      : config_(config),
        checkpoint_(checkpoint),
        codes_(checkpoint, config.quantization),
        type_(type),
        backend_(backend),
        progress_(progress),
        all_(checkpoint.bytes()) {}

  Result<std::unique_ptr<PackedMatrix>> Matrix(const std::string& name, int64_t rows,
                                               int64_t columns) {
    return Matrix({{name, rows}}, columns);
  }

  // Stacks the parts' rows. All have `columns` columns.
  Result<std::unique_ptr<PackedMatrix>> Matrix(const std::vector<Part>& parts, int64_t columns) {
    return Load(parts, columns, type_);
  }

  // A mixture's router is kept in f32, so that the choice of experts is not affected by rounding.
  Result<std::unique_ptr<PackedMatrix>> Router(const std::string& name, int64_t rows,
                                               int64_t columns) {
    if (codes_.Holds(name)) {
      return Unimplemented(name + " is quantized; the router of a mixture must be floats");
    }
    return Load({{name, rows}}, columns, WeightType::kF32);
  }

  // One projection of all experts; `parts` gives the parts of each expert's matrix.
  Result<std::unique_ptr<ExpertMatrices>> Experts(
      int experts, int64_t columns, const std::function<std::vector<Part>(int expert)>& parts) {
    std::vector<std::unique_ptr<PackedMatrix>> matrices;
    for (int e = 0; e < experts; ++e) {
      OUTRIDER_ASSIGN(std::unique_ptr<PackedMatrix> matrix, Matrix(parts(e), columns));
      matrices.push_back(std::move(matrix));
    }
    return backend_.GroupExperts(std::move(matrices));
  }

  // The same for experts that are stacked in the tensor `name`.
  Result<std::unique_ptr<ExpertMatrices>> Stacked(const std::string& name,
                                                  const StackedShape& shape) {
    OUTRIDER_ASSIGN(const StackedExperts stacked, StackedExperts::Find(checkpoint_, name, shape));
    if (!stacked.has_codes()) {
      OUTRIDER_TRY(CheckFits(name, stacked.view(), type_));
      stored_.insert(DtypeName(stacked.view().dtype));
      rounds_ = rounds_ || Rounds(stacked.view().dtype, type_);
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
            packed, Pack(TensorView{values.data(), Dtype::kF32, {shape.rows, shape.columns}}, type_,
                         parts));
      }
      kept_.insert(WeightTypeName(packed->type()));
      matrices.push_back(std::move(packed));
    }
    stacked.DropPages();
    done_ += stacked.bytes();
    if (progress_) progress_(done_ + codes_.bytes_read(), all_);
    return backend_.GroupExperts(std::move(matrices));
  }

  // The biases of such experts, [experts, rows], in the order of their matrices' rows.
  Result<std::unique_ptr<Buffer>> StackedBias(const std::string& name, const StackedShape& shape) {
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

  // A matrix with one row per token, for which 4 bits are too few.
  Result<std::unique_ptr<PackedMatrix>> Table(const std::string& name, int64_t rows,
                                              int64_t columns) {
    return Load({{name, rows}}, columns, type_ == WeightType::kW4A16 ? WeightType::kW8A16 : type_);
  }

  // Concatenates the named vectors, adds `offset`, and uploads them as f32.
  Result<std::unique_ptr<Buffer>> Vector(
      const std::vector<std::pair<std::string, int64_t>>& names_and_sizes, float offset = 0) {
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

  // The gain of a norm.
  Result<std::unique_ptr<Buffer>> Norm(const std::string& name, int64_t size) {
    return Vector({{name + ".weight", size}}, config_.norm_gain_offset);
  }

  // Logs the types of the matrices in the files and in memory.
  void LogTypes() const {
    const bool asked = !IsFloats(type_);
    std::string message = "weights are kept as they are stored";
    if (rounds_) {
      message = asked ? std::string("weights are rounded, as --weights ") +
                            (type_ == WeightType::kW4A16 ? "int4" : "int8") + " asks"
                      : "weights are rounded; --weights f32 keeps them as they are stored";
    }
    Log(rounds_ && !asked ? LogLevel::kWarning : LogLevel::kInfo, message,
        {{"stored", Listed(stored_)}, {"kept", Listed(kept_)}});
  }

 private:
  Result<std::unique_ptr<PackedMatrix>> Load(const std::vector<Part>& parts, int64_t columns,
                                             WeightType type) {
    const auto coded = std::count_if(parts.begin(), parts.end(),
                                     [&](const Part& part) { return codes_.Holds(part.name); });
    const bool is_gguf = config_.quantization.layout == Quantization::Layout::kGguf;
    bool all = coded == static_cast<ptrdiff_t>(parts.size());
    if (is_gguf) {
      all = all && KeepsGgufCodes(parts);
    } else if (coded > 0 && !all) {
      return Unimplemented(Listed(parts) + ": some are quantized, some are not");
    }
    OUTRIDER_ASSIGN(std::unique_ptr<PackedMatrix> packed,
                    all ? PackCodes(parts, columns) : PackFloats(parts, columns, type));
    for (const Part& part : parts) {
      const GgufEntry* const gguf = checkpoint_.Gguf(part.name);
      const std::string stored =
          gguf == nullptr ? "" : std::string(GgmlTypeName(gguf->tensor.type)) + " as ";
      kept_.insert(stored + WeightTypeName(packed->type()));
    }
    if (progress_) progress_(done_ + codes_.bytes_read(), all_);
    return packed;
  }

  // Whether the blocks of a GGUF file are kept as codes: all parts must have the same type. A
  // device would widen codes again for each product, so there they become floats once, except for
  // MXFP4: it is that of experts, of which a row takes few.
  bool KeepsGgufCodes(const std::vector<Part>& parts) const {
    const GgmlType first = checkpoint_.Gguf(parts.front().name)->tensor.type;
    return (backend_.device() == nullptr || first == GgmlType::kMxfp4) &&
           std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
             return checkpoint_.Gguf(part.name)->tensor.type == first;
           });
  }

  static std::string Listed(const std::set<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return list;
  }

  // "q_proj.weight and those it is stacked with"
  static std::string Listed(const std::vector<Part>& parts) {
    return parts.front().name + (parts.size() > 1 ? " and those it is stacked with" : "");
  }

  // `values` may be overwritten when this returns.
  Result<std::unique_ptr<PackedMatrix>> Pack(const TensorView& values, WeightType type,
                                             const std::vector<Part>& parts) {
    Result<std::unique_ptr<PackedMatrix>> packed = backend_.Pack(values, type);
    if (!packed.ok()) return packed.status().Annotate(Listed(parts));
    backend_.Wait();
    return packed;
  }

  Result<std::unique_ptr<PackedMatrix>> PackFloats(const std::vector<Part>& parts, int64_t columns,
                                                   WeightType type) {
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
      rounds_ = rounds_ || Rounds(view.dtype, type) || (in_blocks && type != WeightType::kF32);
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

  // Keeps the codes as they are if the backend has a product for them, otherwise as floats of the
  // requested type.
  Result<std::unique_ptr<PackedMatrix>> PackCodes(const std::vector<Part>& parts, int64_t columns) {
    QuantizedMatrix matrix;
    for (const Part& part : parts) {
      OUTRIDER_TRY(codes_.Append(part.name, part.rows, columns, &matrix));
    }
    for (const Part& part : parts) NoteStored(part.name, CodeTypeName(matrix.type));
    return PackCodes(matrix, parts);
  }

  Result<std::unique_ptr<PackedMatrix>> PackCodes(const QuantizedMatrix& matrix,
                                                  const std::vector<Part>& parts) {
    const WeightType floats = IsFloats(type_) ? type_ : WeightType::kBf16;
    if (floats == WeightType::kF16) OUTRIDER_TRY(CheckCodesFit(matrix, parts, floats));
    const WeightType kept = KeptAs(matrix, type_, config_.quantization.rounds_activations);
    Result<std::unique_ptr<PackedMatrix>> packed = backend_.Pack(matrix, kept, floats);
    backend_.Wait();
    if (packed.ok()) return packed;
    if (packed.status().code() != Code::kUnimplemented) {
      return packed.status().Annotate(Listed(parts));
    }
    rounds_ = rounds_ || floats != WeightType::kF32;
    OUTRIDER_TRY(CheckCodesFit(matrix, parts, floats));
    std::vector<float> values(matrix.codes.size());
    const auto width = static_cast<size_t>(matrix.columns);
    for (int64_t row = 0; row < matrix.rows; ++row) {
      matrix.WidenRowInOrder(row, std::span(values).subspan(static_cast<size_t>(row) * width));
    }
    return Pack(TensorView{values.data(), Dtype::kF32, {matrix.rows, matrix.columns}}, floats,
                parts);
  }

  static Status CheckCodesFit(const QuantizedMatrix& matrix, const std::vector<Part>& parts,
                              WeightType kept) {
    std::vector<float> values(static_cast<size_t>(matrix.columns));
    for (int64_t row = 0; row < matrix.rows; ++row) {
      matrix.WidenRow(row, values);
      const TensorView view = {values.data(), Dtype::kF32, {1, matrix.columns}};
      OUTRIDER_TRY(CheckFits(Listed(parts) + ", row " + std::to_string(row), view, kept));
    }
    return Status();
  }

  // Records that a matrix of this type is stored; a GGUF file has more type names. Returns whether
  // it is stored in blocks.
  bool NoteStored(const std::string& name, const char* type) {
    const GgufEntry* const gguf = checkpoint_.Gguf(name);
    stored_.insert(gguf == nullptr ? type : GgmlTypeName(gguf->tensor.type));
    return gguf != nullptr && GgmlBlockElements(gguf->tensor.type) > 1;
  }

  Result<std::unique_ptr<Buffer>> Upload(const std::vector<float>& values) {
    OUTRIDER_ASSIGN(std::unique_ptr<Buffer> buffer,
                    backend_.Allocate(values.size() * sizeof(float)));
    backend_.CopyIn(buffer->data(), values.data(), values.size() * sizeof(float));
    backend_.Wait();
    return buffer;
  }

  // As Checkpoint::FindWidened.
  Result<TensorView> Find(const std::string& name, const Shape& shape, Dtype blocks_as,
                          std::vector<std::byte>* storage) {
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
    done_ += static_cast<int64_t>(checkpoint_.Entry(name)->bytes.size());
    return view;
  }

  // The tensor has been packed, so its part of the file can leave memory.
  static void DropPages(const TensorView& view) {
    MappedFile::DropPages(
        {static_cast<const std::byte*>(view.data), view.elements() * DtypeBytes(view.dtype)});
  }

  static std::vector<float> Widen(const TensorView& view) {
    std::vector<float> values(view.elements());
    LoadElements(view, 0, values);
    return values;
  }

  const ModelConfig& config_;
  const Checkpoint& checkpoint_;
  QuantizedTensors codes_;
  const WeightType type_;
  Backend& backend_;
  const LoadProgress& progress_;
  const int64_t all_;  // bytes of the files
  int64_t done_ = 0;   // of those, processed so far
  // For the matrices: types in the files and in memory, and whether any lost precision in between.
  std::set<std::string> stored_, kept_;
  bool rounds_ = false;
};

// The attention half of a layer; the names of its tensors begin with `layer`.
Status LoadAttention(const ModelConfig& config, const AttentionDescription& described,
                     const std::string& layer, Loader& load, LayerWeights* out) {
  const std::string attention = layer + "self_attn.";
  const int64_t hidden = config.hidden_size;
  const int64_t q_rows = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.num_kv_heads} * config.head_dim;
  if (described.norm != nullptr) {
    OUTRIDER_ASSIGN(out->attention_norm, load.Norm(layer + described.norm, hidden));
  }
  if (described.norm_after != nullptr) {
    OUTRIDER_ASSIGN(out->attention_norm_after, load.Norm(layer + described.norm_after, hidden));
  }
  std::vector<Part> parts = {{attention + "q_proj.weight", q_rows},
                             {attention + "k_proj.weight", kv_rows},
                             {attention + "v_proj.weight", kv_rows}};
  if (described.fused_qkv) parts = {{attention + "qkv_proj.weight", q_rows + 2 * kv_rows}};
  OUTRIDER_ASSIGN(out->qkv, load.Matrix(parts, hidden));
  if (described.qkv_bias) {
    OUTRIDER_ASSIGN(out->qkv_bias, load.Vector({{attention + "q_proj.bias", q_rows},
                                                {attention + "k_proj.bias", kv_rows},
                                                {attention + "v_proj.bias", kv_rows}}));
  }
  if (described.qk_norm != QkNorm::kNone) {
    const bool heads = described.qk_norm == QkNorm::kHeads;
    OUTRIDER_ASSIGN(out->q_norm, load.Norm(attention + "q_norm", heads ? config.head_dim : q_rows));
    OUTRIDER_ASSIGN(out->k_norm,
                    load.Norm(attention + "k_norm", heads ? config.head_dim : kv_rows));
  }
  if (described.sinks) {
    OUTRIDER_ASSIGN(out->sinks, load.Vector({{attention + "sinks", config.num_heads}}));
  }
  OUTRIDER_ASSIGN(out->attention_out, load.Matrix(attention + "o_proj.weight", hidden, q_rows));
  if (described.out_bias) {
    OUTRIDER_ASSIGN(out->attention_out_bias, load.Vector({{attention + "o_proj.bias", hidden}}));
  }
  return Status();
}

// The experts of gpt-oss as published.
Status LoadStackedExperts(const MixtureDescription& described, int64_t hidden,
                          const std::string& block, Loader& load, MixtureWeights* out) {
  const StackedShape gate_up = {.experts = described.router.experts,
                                .rows = int64_t{2} * described.intermediate_size,
                                .columns = hidden,
                                .interleaved = true};
  const StackedShape down = {
      .experts = described.router.experts, .rows = hidden, .columns = described.intermediate_size};
  OUTRIDER_ASSIGN(out->gate_up, load.Stacked(block + "experts.gate_up_proj", gate_up));
  OUTRIDER_ASSIGN(out->gate_up_bias,
                  load.StackedBias(block + "experts.gate_up_proj_bias", gate_up));
  OUTRIDER_ASSIGN(out->down, load.Stacked(block + "experts.down_proj", down));
  OUTRIDER_ASSIGN(out->down_bias, load.StackedBias(block + "experts.down_proj_bias", down));
  return Status();
}

Status LoadMixture(const MixtureDescription& described, int64_t hidden, const std::string& layer,
                   Loader& load, MixtureWeights* out) {
  const std::string block = layer + described.block;
  const int64_t width = described.intermediate_size;
  const int experts = described.router.experts;
  OUTRIDER_ASSIGN(out->router,
                  load.Router(block + described.router_name + ".weight", experts, hidden));
  if (described.biases) {
    OUTRIDER_ASSIGN(out->router_bias,
                    load.Vector({{block + described.router_name + ".bias", experts}}));
  }
  if (described.stacked) return LoadStackedExperts(described, hidden, block, load, out);
  const auto name = [&](int expert, const char* projection) {
    return block + "experts." + std::to_string(expert) + "." + projection;
  };
  OUTRIDER_ASSIGN(out->gate_up, load.Experts(experts, hidden, [&](int expert) {
    return std::vector<Part>{{name(expert, described.gate) + ".weight", width},
                             {name(expert, described.up) + ".weight", width}};
  }));
  OUTRIDER_ASSIGN(out->down, load.Experts(experts, width, [&](int expert) {
    return std::vector<Part>{{name(expert, described.down) + ".weight", hidden}};
  }));
  if (!described.biases) return Status();
  std::vector<std::pair<std::string, int64_t>> gate_up, down;
  for (int e = 0; e < experts; ++e) {
    gate_up.emplace_back(name(e, described.gate) + ".bias", width);
    gate_up.emplace_back(name(e, described.up) + ".bias", width);
    down.emplace_back(name(e, described.down) + ".bias", hidden);
  }
  OUTRIDER_ASSIGN(out->gate_up_bias, load.Vector(gate_up));
  OUTRIDER_ASSIGN(out->down_bias, load.Vector(down));
  return Status();
}

Status LoadMlp(const ModelConfig& config, const MlpDescription& described, const std::string& layer,
               Loader& load, LayerWeights* out) {
  const std::string mlp = layer + "mlp.";
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  if (described.norm != nullptr) {
    OUTRIDER_ASSIGN(out->mlp_norm, load.Norm(layer + described.norm, hidden));
  }
  if (described.norm_after != nullptr) {
    OUTRIDER_ASSIGN(out->mlp_norm_after, load.Norm(layer + described.norm_after, hidden));
  }
  if (described.mixture) return LoadMixture(*described.mixture, hidden, layer, load, &out->mixture);
  std::vector<Part> parts = {{mlp + "gate_proj.weight", intermediate},
                             {mlp + "up_proj.weight", intermediate}};
  if (described.fused_gate_up) parts = {{mlp + "gate_up_proj.weight", 2 * intermediate}};
  OUTRIDER_ASSIGN(out->gate_up, load.Matrix(parts, hidden));
  OUTRIDER_ASSIGN(out->down, load.Matrix(mlp + "down_proj.weight", hidden, intermediate));
  if (!described.bias) return Status();
  OUTRIDER_ASSIGN(out->gate_up_bias, load.Vector({{mlp + "gate_proj.bias", intermediate},
                                                  {mlp + "up_proj.bias", intermediate}}));
  OUTRIDER_ASSIGN(out->down_bias, load.Vector({{mlp + "down_proj.bias", hidden}}));
  return Status();
}

Result<LayerWeights> LoadLayer(const ModelConfig& config, int index, Loader& load) {
  const LayerDescription& described = config.layers[static_cast<size_t>(index)];
  const std::string layer = "model.layers." + std::to_string(index) + ".";
  LayerWeights out;
  OUTRIDER_TRY(LoadAttention(config, described.attention, layer, load, &out));
  OUTRIDER_TRY(LoadMlp(config, described.mlp, layer, load, &out));
  return out;
}

}  // namespace

Result<Weights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                            WeightType type, Backend& backend, const LoadProgress& progress) {
  Loader load(config, checkpoint, type, backend, progress);
  Weights weights;
  OUTRIDER_ASSIGN(weights.embedding,
                  load.Table("model.embed_tokens.weight", config.vocab_size, config.hidden_size));
  for (int i = 0; i < config.num_layers(); ++i) {
    OUTRIDER_ASSIGN(LayerWeights layer, LoadLayer(config, i, load));
    weights.layers.push_back(std::move(layer));
  }
  OUTRIDER_ASSIGN(weights.final_norm, load.Norm("model.norm", config.hidden_size));
  if (!config.tied_embeddings) {
    OUTRIDER_ASSIGN(weights.head,
                    load.Table("lm_head.weight", config.vocab_size, config.hidden_size));
  }
  load.LogTypes();
  return weights;
}

}  // namespace outrider
