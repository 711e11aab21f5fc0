#include "common/model/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/model/mapped_file.h"

namespace outrider {
namespace {

using Shape = std::vector<int64_t>;

const char* WeightTypeName(WeightType type) {
  switch (type) {
    case WeightType::kBf16: return "bf16";
    case WeightType::kF16: return "f16";
    case WeightType::kF32: return "f32";
    case WeightType::kInt8: return "int8";
  }
  return "unknown";
}

// Magnitudes from which a number becomes an infinity.
float LimitOf(WeightType type) {
  switch (type) {
    case WeightType::kF16: return 65520.f;
    case WeightType::kBf16: return std::bit_cast<float>(0x7f7f8000u);
    case WeightType::kF32:
    case WeightType::kInt8: break;
  }
  return std::numeric_limits<float>::infinity();
}

// The values of --weights that hold numbers which `type` cannot.
const char* WiderThan(WeightType type) {
  switch (type) {
    case WeightType::kF16: return "bf16 or f32";
    case WeightType::kBf16:
    case WeightType::kF32:
    case WeightType::kInt8: break;
  }
  return "f32";
}

// Whether whoever chooses it asks for rounding, which then needs no warning.
bool IsApproximate(WeightType type) {
  switch (type) {
    case WeightType::kInt8: return true;
    case WeightType::kBf16:
    case WeightType::kF16:
    case WeightType::kF32: break;
  }
  return false;
}

bool Rounds(Dtype stored, WeightType kept) {
  switch (kept) {
    case WeightType::kF32: return false;
    case WeightType::kBf16: return stored != Dtype::kBf16;
    case WeightType::kF16: return stored != Dtype::kF16;
    case WeightType::kInt8: return true;
  }
  return true;
}

// "[12, 345]": where element `index` is.
std::string Coordinates(const Shape& shape, size_t index) {
  std::string text;
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    const std::string at = std::to_string(index % static_cast<size_t>(*size));
    text.insert(0, text.empty() ? at : at + ", ");
    index /= static_cast<size_t>(*size);
  }
  return "[" + text + "]";
}

// A NaN in a weight makes every text the same nonsense; it is found here or never.
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

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, WeightType type, float norm_gain_offset, Backend& backend,
         const LoadProgress& progress)
      : checkpoint_(checkpoint),
        type_(type),
        norm_gain_offset_(norm_gain_offset),
        backend_(backend),
        progress_(progress),
        all_(checkpoint.bytes()) {}

  Result<std::unique_ptr<PackedMatrix>> Matrix(const std::string& name, const Shape& shape) {
    OUTRIDER_ASSIGN(const TensorView view, FindMatrix(name, shape));
    OUTRIDER_ASSIGN(std::unique_ptr<PackedMatrix> packed, Pack(view, name));
    Forget(view);
    return packed;
  }

  // The matrices named, one on top of another. All have `columns` columns.
  Result<std::unique_ptr<PackedMatrix>> Stacked(
      const std::vector<std::pair<std::string, int64_t>>& names_and_rows, int64_t columns) {
    std::vector<TensorView> parts;
    TensorView stacked;
    stacked.shape = {0, columns};
    bool same_dtype = true;
    for (const auto& [name, rows] : names_and_rows) {
      OUTRIDER_ASSIGN(TensorView part, FindMatrix(name, {rows, columns}));
      stacked.shape[0] += rows;
      parts.push_back(std::move(part));
      same_dtype = same_dtype && parts.back().dtype == parts.front().dtype;
    }
    stacked.dtype = same_dtype ? parts.front().dtype : Dtype::kF32;

    std::vector<std::byte> bytes(stacked.elements() * DtypeBytes(stacked.dtype));
    std::byte* out = bytes.data();
    for (const TensorView& part : parts) {
      const size_t part_bytes = part.elements() * DtypeBytes(stacked.dtype);
      if (same_dtype) {
        std::memcpy(out, part.data, part_bytes);
      } else {
        const std::vector<float> widened = Widen(part);
        std::memcpy(out, widened.data(), part_bytes);
      }
      out += part_bytes;
      Forget(part);
    }
    stacked.data = bytes.data();
    return Pack(stacked, names_and_rows.front().first + " and those it is stacked with");
  }

  // The vectors named, one after another and `offset` more, as f32 on the device.
  Result<std::unique_ptr<Buffer>> Vector(
      const std::vector<std::pair<std::string, int64_t>>& names_and_sizes, float offset = 0) {
    std::vector<float> values;
    for (const auto& [name, size] : names_and_sizes) {
      OUTRIDER_ASSIGN(const TensorView view, Find(name, {size}));
      OUTRIDER_TRY(CheckFits(name, view, WeightType::kF32));
      const std::vector<float> part = Widen(view);
      values.insert(values.end(), part.begin(), part.end());
    }
    for (float& value : values) value += offset;
    OUTRIDER_ASSIGN(std::unique_ptr<Buffer> buffer,
                    backend_.Allocate(values.size() * sizeof(float)));
    backend_.CopyIn(buffer->data(), values.data(), values.size() * sizeof(float));
    backend_.Wait();
    return buffer;
  }

  // The gain of a norm.
  Result<std::unique_ptr<Buffer>> Norm(const std::string& name, int64_t size) {
    return Vector({{name + ".weight", size}}, norm_gain_offset_);
  }

  // Says what the matrices are in the files and what they are kept as.
  void LogTypes() const {
    std::string stored;
    bool rounds = false;
    for (const Dtype dtype : stored_) {
      stored += (stored.empty() ? "" : ", ") + std::string(DtypeName(dtype));
      rounds = rounds || Rounds(dtype, type_);
    }
    const bool asked = IsApproximate(type_);
    std::string message = "weights are kept as they are stored";
    if (rounds) {
      message = asked ? std::string("weights are rounded, as --weights ") + WeightTypeName(type_) +
                            " asks"
                      : "weights are rounded; --weights f32 keeps them as they are stored";
    }
    Log(rounds && !asked ? LogLevel::kWarning : LogLevel::kInfo, message,
        {{"stored", stored}, {"kept", WeightTypeName(type_)}});
  }

 private:
  Result<TensorView> FindMatrix(const std::string& name, const Shape& shape) {
    OUTRIDER_ASSIGN(TensorView view, Find(name, shape));
    OUTRIDER_TRY(CheckFits(name, view, type_));
    stored_.insert(view.dtype);
    return view;
  }

  Result<TensorView> Find(const std::string& name, const Shape& shape) {
    Result<TensorView> view = checkpoint_.Find(name);
    if (!view.ok()) {
      // A file that is there but lacks a tensor is a bad model, not a missing one.
      return view.status().code() == Code::kNotFound ? InvalidArgument(view.status().message())
                                                     : view.status();
    }
    if (view->shape != shape) {
      TensorView expected = *view;
      expected.shape = shape;
      return InvalidArgument(name + " is " + view->Describe() + ", config.json asks for " +
                             expected.Describe());
    }
    done_ += static_cast<int64_t>(view->elements() * DtypeBytes(view->dtype));
    return view;
  }

  Result<std::unique_ptr<PackedMatrix>> Pack(const TensorView& view, const std::string& what) {
    Result<std::unique_ptr<PackedMatrix>> packed = backend_.Pack(view, type_);
    if (!packed.ok()) return packed.status().Annotate(what);
    backend_.Wait();
    if (progress_) progress_(done_, all_);
    return packed;
  }

  // It is packed, so its part of the file need not stay in memory beside it.
  static void Forget(const TensorView& view) {
    MappedFile::Forget(
        {static_cast<const std::byte*>(view.data), view.elements() * DtypeBytes(view.dtype)});
  }

  static std::vector<float> Widen(const TensorView& view) {
    std::vector<float> values(view.elements());
    LoadElements(view, 0, values);
    return values;
  }

  const Checkpoint& checkpoint_;
  const WeightType type_;
  const float norm_gain_offset_;
  Backend& backend_;
  const LoadProgress& progress_;
  const int64_t all_;       // bytes of the files
  int64_t done_ = 0;        // of those, found so far
  std::set<Dtype> stored_;  // by the matrices
};

Result<LayerWeights> LoadLayer(const ModelConfig& config, int index, Loader& load) {
  const LayerDescription& described = config.layers[static_cast<size_t>(index)];
  const std::string layer = "model.layers." + std::to_string(index) + ".";
  const std::string attention = layer + "self_attn.";
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  const int64_t q_rows = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.num_kv_heads} * config.head_dim;

  LayerWeights out;
  OUTRIDER_ASSIGN(out.attention_norm, load.Norm(layer + described.attention.norm, hidden));
  if (described.attention.norm_after != nullptr) {
    OUTRIDER_ASSIGN(out.attention_norm_after,
                    load.Norm(layer + described.attention.norm_after, hidden));
  }
  OUTRIDER_ASSIGN(out.qkv, load.Stacked({{attention + "q_proj.weight", q_rows},
                                         {attention + "k_proj.weight", kv_rows},
                                         {attention + "v_proj.weight", kv_rows}},
                                        hidden));
  if (described.attention.qkv_bias) {
    OUTRIDER_ASSIGN(out.qkv_bias, load.Vector({{attention + "q_proj.bias", q_rows},
                                               {attention + "k_proj.bias", kv_rows},
                                               {attention + "v_proj.bias", kv_rows}}));
  }
  if (described.attention.qk_norm) {
    OUTRIDER_ASSIGN(out.q_norm, load.Norm(attention + "q_norm", config.head_dim));
    OUTRIDER_ASSIGN(out.k_norm, load.Norm(attention + "k_norm", config.head_dim));
  }
  OUTRIDER_ASSIGN(out.attention_out, load.Matrix(attention + "o_proj.weight", {hidden, q_rows}));
  OUTRIDER_ASSIGN(out.mlp_norm, load.Norm(layer + described.mlp.norm, hidden));
  if (described.mlp.norm_after != nullptr) {
    OUTRIDER_ASSIGN(out.mlp_norm_after, load.Norm(layer + described.mlp.norm_after, hidden));
  }
  OUTRIDER_ASSIGN(out.gate_up, load.Stacked({{layer + "mlp.gate_proj.weight", intermediate},
                                             {layer + "mlp.up_proj.weight", intermediate}},
                                            hidden));
  OUTRIDER_ASSIGN(out.down, load.Matrix(layer + "mlp.down_proj.weight", {hidden, intermediate}));
  return out;
}

}  // namespace

Result<Weights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                            WeightType type, Backend& backend, const LoadProgress& progress) {
  Loader load(checkpoint, type, config.norm_gain_offset, backend, progress);
  const Shape vocabulary = {config.vocab_size, config.hidden_size};
  Weights weights;
  OUTRIDER_ASSIGN(weights.embedding, load.Matrix("model.embed_tokens.weight", vocabulary));
  for (int i = 0; i < config.num_layers(); ++i) {
    OUTRIDER_ASSIGN(LayerWeights layer, LoadLayer(config, i, load));
    weights.layers.push_back(std::move(layer));
  }
  OUTRIDER_ASSIGN(weights.final_norm, load.Norm("model.norm", config.hidden_size));
  if (!config.tied_embeddings) {
    OUTRIDER_ASSIGN(weights.head, load.Matrix("lm_head.weight", vocabulary));
  }
  load.LogTypes();
  return weights;
}

}  // namespace outrider
