// The architectures of GGUF files that are supported, and how the format names and stores them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/gguf/gguf_file.h"

namespace outrider {

inline constexpr char kLongFactors[] = "rope_factors_long.weight";
inline constexpr char kShortFactors[] = "rope_factors_short.weight";
inline constexpr char kRopeFactors[] = "rope_freqs.weight";
// For any size; config.cc has the actual limits.
inline constexpr int64_t kMostOfAGgufSize = INT64_C(1) << 31;

// Names of one tensor, or of one kind of tensor in each layer.
struct GgufNamePair {
  std::string_view gguf;  // "attn_q"
  std::string_view checkpoint;
};

// Which projections may have biases.
enum class GgufBiases { kNone, kQkv, kAttention, kAll };

struct GgufArchitecture {
  std::string_view name;
  std::string_view checkpoint;  // the name in config.json
  std::span<const GgufNamePair> projections;
  std::span<const GgufNamePair> norms;
  bool qk_norms = false;
  bool interleaved = false;  // the rows of q and k
  GgufBiases biases = GgufBiases::kNone;
  bool mixture = false;  // of experts, in every layer
};

bool IsGgufGemma(const GgufArchitecture& architecture);
bool IsGgufGptOss(const GgufArchitecture& architecture);

// The file's architecture; kUnimplemented names it if it is not supported.
Result<const GgufArchitecture*> FindGgufArchitecture(const GgufFile& file);

// The name of a layer's tensor: "blk.12.attn_q.weight".
struct GgufLayerName {
  std::string_view layer, stem, suffix;
};

// Empty for a tensor that belongs to no layer.
std::optional<GgufLayerName> SplitGgufName(std::string_view name);

// A positive number, or the common value of all elements of an array: some files have one number
// per layer.
Result<int64_t> SharedGgufInt(const GgufFile& file, const std::string& key);

}  // namespace outrider
