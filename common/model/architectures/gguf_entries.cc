// The tensors of a GGUF file under their names in a checkpoint.
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model/architectures/gguf_architecture.h"
#include "common/model/architectures/gguf_config.h"

namespace outrider {
namespace {

constexpr GgufNamePair kQkNorms[] = {{"attn_q_norm", "self_attn.q_norm"},
                                     {"attn_k_norm", "self_attn.k_norm"}};
constexpr GgufNamePair kModel[] = {{"token_embd.weight", "model.embed_tokens.weight"},
                                   {"output_norm.weight", "model.norm.weight"},
                                   {"output.weight", "lm_head.weight"}};

constexpr size_t kMostEntries = 1 << 19;  // 36,000 for 94 layers of 128 experts

bool MayHaveBias(const GgufArchitecture& architecture, std::string_view stem) {
  const bool qkv = stem == "attn_q" || stem == "attn_k" || stem == "attn_v";
  switch (architecture.biases) {
    case GgufBiases::kNone: return false;
    case GgufBiases::kQkv: return qkv;
    case GgufBiases::kAttention: return qkv || stem == "attn_output";
    case GgufBiases::kAll: return true;
  }
  return false;
}

// The part after "model.layers.<n>." of a layer tensor's name; "" if the architecture has no such
// tensor.
std::string CheckpointName(const GgufArchitecture& architecture, const GgufLayerName& name) {
  const auto find = [&](std::span<const GgufNamePair> names) -> std::string {
    for (const GgufNamePair& known : names) {
      if (known.gguf == name.stem) return std::string(known.checkpoint) + std::string(name.suffix);
    }
    return "";
  };
  if (name.suffix == ".bias") {
    return MayHaveBias(architecture, name.stem) ? find(architecture.projections) : "";
  }
  if (name.suffix != ".weight") return "";
  if (IsGgufGptOss(architecture) && name.stem == "attn_sinks") return "self_attn.sinks";
  std::string found = find(architecture.projections);
  if (found.empty()) found = find(architecture.norms);
  if (found.empty() && architecture.qk_norms) found = find(kQkNorms);
  return found;
}

// Whether the tensor has RoPE factors, which become part of the config.
bool IsOfConfig(const GgufArchitecture& architecture, std::string_view name) {
  if (architecture.name == "phi3") return name == kLongFactors || name == kShortFactors;
  return name == kRopeFactors && !IsGgufGemma(architecture);
}

struct Heads {
  int64_t q = 0, k = 0;
};

// With an empty name if the architecture has no such tensor.
GgufEntry EntryOf(const GgufArchitecture& architecture, const GgufTensor& tensor, int64_t layers,
                  const Heads& heads) {
  GgufEntry entry = {.name = "", .tensor = tensor};
  for (const GgufNamePair& known : kModel) {
    if (known.gguf == tensor.name) entry.name = known.checkpoint;
  }
  const std::optional<GgufLayerName> parts = SplitGgufName(tensor.name);
  if (!parts.has_value()) return entry;
  int64_t layer = -1;
  const char* const end = parts->layer.data() + parts->layer.size();
  const bool is_number = std::from_chars(parts->layer.data(), end, layer).ptr == end &&
                         std::to_string(layer) == parts->layer;
  const std::string within = CheckpointName(architecture, *parts);
  if (!is_number || layer < 0 || layer >= layers || within.empty()) return entry;
  entry.name = "model.layers." + std::to_string(layer) + "." + within;
  if (architecture.interleaved && parts->stem == "attn_q") entry.interleaved_heads = heads.q;
  if (architecture.interleaved && parts->stem == "attn_k") entry.interleaved_heads = heads.k;
  return entry;
}

// Adds the entry, or one per expert if it has those of a layer.
Status Add(const GgufFile& file, GgufEntry entry, int64_t experts,
           std::vector<GgufEntry>* entries) {
  const size_t star = entry.name.find('*');
  if (star == std::string::npos) {
    entries->push_back(std::move(entry));
    return Status();
  }
  const GgufTensor& all = entry.tensor;
  const bool is_bias = entry.name.ends_with(".bias");
  if (all.shape.size() != (is_bias ? 2 : 3) || all.shape[0] != experts) {
    return file.Wrong(all.name, std::string("must have ") + (is_bias ? "two" : "three") +
                                    " dimensions, the last of " + std::to_string(experts) +
                                    " experts");
  }
  if (entries->size() + static_cast<size_t>(experts) > kMostEntries) {
    return file.Unsupported(all.name, "is one of too many experts; all layers together may have " +
                                          std::to_string(kMostEntries) + " matrices");
  }
  const size_t each = all.bytes.size() / static_cast<size_t>(experts);
  for (int64_t i = 0; i < experts; ++i) {
    const std::string number = std::to_string(i);
    std::string name = entry.name;
    entries->push_back(
        {.name = name.replace(star, 1, number),
         .tensor = {.name = all.name + ", expert " + number,
                    .type = all.type,
                    .shape = {all.shape.begin() + 1, all.shape.end()},
                    .bytes = all.bytes.subspan(static_cast<size_t>(i) * each, each)}});
  }
  return Status();
}

}  // namespace

Result<std::vector<GgufEntry>> GgufEntries(const GgufFile& file) {
  OUTRIDER_ASSIGN(const GgufArchitecture* architecture, FindGgufArchitecture(file));
  const std::string prefix = std::string(architecture->name) + ".";
  OUTRIDER_ASSIGN(const int64_t layers, SharedGgufInt(file, prefix + "block_count"));
  Heads heads;
  OUTRIDER_ASSIGN(heads.q, SharedGgufInt(file, prefix + "attention.head_count"));
  heads.k = heads.q;
  if (const std::string key = prefix + "attention.head_count_kv"; file.Has(key)) {
    OUTRIDER_ASSIGN(heads.k, SharedGgufInt(file, key));
  }
  int64_t experts = 0;
  if (architecture->mixture) {
    OUTRIDER_ASSIGN(experts, file.Int(prefix + "expert_count", 1, kMostOfAGgufSize));
  }
  std::vector<GgufEntry> entries;
  for (const GgufTensor& tensor : file.tensors()) {
    if (IsOfConfig(*architecture, tensor.name)) continue;
    GgufEntry entry = EntryOf(*architecture, tensor, layers, heads);
    if (entry.name.empty()) {
      return file.Unsupported(tensor.name, "is a tensor that " + std::string(architecture->name) +
                                               " models of " + std::to_string(layers) +
                                               " layers do not have here");
    }
    OUTRIDER_TRY(Add(file, std::move(entry), experts, &entries));
  }
  return entries;
}

}  // namespace outrider
