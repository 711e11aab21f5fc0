#include "tests/support/quantized_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/tensor/tensor.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

struct Scheme {
  int bits = 8;
  bool is_float = false;
  bool has_zeros = false;
  bool has_order = false;
  int group_size = 0;  // inputs per scale; 0: all
  int block_rows = 0;  // outputs per scale; 0: one
};

Scheme SchemeOf(StoredAs stored) {
  switch (stored) {
    case StoredAs::kFloats:
    case StoredAs::kMxfp4:
    case StoredAs::kInt8Rows:
    case StoredAs::kPacked8: return {};
    case StoredAs::kFp8Tensor: return {.is_float = true, .block_rows = 1 << 30};
    case StoredAs::kFp8Channel: return {.is_float = true};
    case StoredAs::kFp8Block:
      return {.is_float = true, .group_size = kQuantizedGroup, .block_rows = kQuantizedGroup};
    case StoredAs::kFp8Block128: return {.is_float = true, .group_size = 128, .block_rows = 128};
    case StoredAs::kPacked4: return {.bits = 4, .group_size = kQuantizedGroup};
    case StoredAs::kPacked4Zeros:
    case StoredAs::kGptq:
    case StoredAs::kAwq: return {.bits = 4, .has_zeros = true, .group_size = kQuantizedGroup};
    case StoredAs::kPacked4Order:
    case StoredAs::kGptqOrder:
      return {.bits = 4, .has_zeros = true, .has_order = true, .group_size = kQuantizedGroup};
    case StoredAs::kGptq8: return {.bits = 8, .has_zeros = true, .group_size = kQuantizedGroup};
  }
  return {};
}

// A matrix as numbers: unsigned codes, and their scales and zero points.
struct Rounded {
  int64_t rows = 0, columns = 0, groups = 0;
  std::vector<int> codes;     // 0 to 2^bits - 1, or FP8's bits
  std::vector<float> scales;  // [rows, groups]
  std::vector<int> zeros;     // [rows, groups]
  std::vector<int> group_of;  // [columns]
};

// The bits of the FP8 E4M3 value nearest to `value`.
int NearestFp8(float value) {
  int best = 0;
  float least = INFINITY;
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) continue;
    const int exponent = code >> 3 & 15;
    const float magnitude =
        exponent == 0 ? std::ldexp(static_cast<float>(code & 7), -9)
                      : std::ldexp(1.f + static_cast<float>(code & 7) / 8.f, exponent - 7);
    const float error = std::fabs((code & 0x80 ? -magnitude : magnitude) - value);
    if (error < least) least = error, best = code;
  }
  return best;
}

// Rounds scales to what 16 bits can represent: bf16, which f16 represents exactly at such
// magnitudes.
float Kept(float scale) { return F16ToFloat(FloatToF16(Bf16ToFloat(FloatToBf16(scale)))); }

Rounded Round(const Scheme& scheme, std::span<const float> values, int64_t rows, int64_t columns) {
  Rounded out{.rows = rows, .columns = columns};
  const int64_t group_size = scheme.group_size == 0 ? columns : scheme.group_size;
  out.groups = (columns + group_size - 1) / group_size;
  // With an order, neighbouring inputs belong to different groups.
  for (int64_t k = 0; k < columns; ++k) {
    out.group_of.push_back(static_cast<int>(scheme.has_order ? k % out.groups : k / group_size));
  }
  const int top = (1 << scheme.bits) - 1;
  out.codes.resize(static_cast<size_t>(rows * columns));
  const int64_t block = std::min<int64_t>(std::max(scheme.block_rows, 1), rows);
  for (int64_t row = 0; row < rows; ++row) {
    for (int group = 0; group < out.groups; ++group) {
      float low = 0, high = 0;
      for (int64_t r = row / block * block; r < std::min(row / block * block + block, rows); ++r) {
        for (int64_t k = 0; k < columns; ++k) {
          if (out.group_of[static_cast<size_t>(k)] != group) continue;
          low = std::min(low, values[static_cast<size_t>(r * columns + k)]);
          high = std::max(high, values[static_cast<size_t>(r * columns + k)]);
        }
      }
      const float largest = std::max(-low, high);
      const int half = top / 2;  // on each side of zero
      float scale = largest / static_cast<float>(half);
      if (scheme.is_float) scale = largest / 448;
      if (scheme.has_zeros) scale = (high - low) / static_cast<float>(top);
      scale = Kept(scale);
      int zero = (top + 1) / 2;
      if (scheme.has_zeros) {
        zero = std::clamp(static_cast<int>(std::lround(-low / scale)), 0, top);
      }
      out.scales.push_back(scale);
      out.zeros.push_back(zero);
      for (int64_t k = 0; k < columns; ++k) {
        if (out.group_of[static_cast<size_t>(k)] != group) continue;
        const float steps = values[static_cast<size_t>(row * columns + k)] / scale;
        out.codes[static_cast<size_t>(row * columns + k)] =
            scheme.is_float ? NearestFp8(steps)
                            : std::clamp(static_cast<int>(std::lround(steps)) + zero, 0, top);
      }
    }
  }
  return out;
}

template <class T>
StoredTensor Stored(const char* dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  StoredTensor out{dtype, std::move(shape), std::string(values.size() * sizeof(T), '\0')};
  std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}

// The scales of `rounded` as [first, second], by output or by group.
StoredTensor Scales(const Rounded& rounded, const char* dtype, bool by_group) {
  std::vector<uint16_t> bits;
  const auto add = [&](int64_t row, int64_t group) {
    const float scale = rounded.scales[static_cast<size_t>(row * rounded.groups + group)];
    bits.push_back(dtype == std::string("F16") ? FloatToF16(scale) : FloatToBf16(scale));
  };
  if (by_group) {
    for (int64_t group = 0; group < rounded.groups; ++group) {
      for (int64_t row = 0; row < rounded.rows; ++row) add(row, group);
    }
    return Stored(dtype, {rounded.groups, rounded.rows}, bits);
  }
  for (int64_t row = 0; row < rounded.rows; ++row) {
    for (int64_t group = 0; group < rounded.groups; ++group) add(row, group);
  }
  return Stored(dtype, {rounded.rows, rounded.groups}, bits);
}

// 32-bit words, initially zero, into which integers are packed.
class Words {
 public:
  Words(int64_t first, int64_t second, int bits)
      : shape_{first, second}, bits_(bits), words_(static_cast<size_t>(first * second)) {}
  void Put(int64_t first, int64_t second, int64_t slot, int value) {
    words_[static_cast<size_t>(first * shape_[1] + second)] |= static_cast<uint32_t>(value)
                                                               << bits_ * slot;
  }
  StoredTensor Take() const { return Stored("I32", shape_, words_); }

 private:
  std::vector<int64_t> shape_;
  int bits_;
  std::vector<uint32_t> words_;
};

StoredTensor GroupIndex(const Rounded& rounded) {
  return Stored("I32", {rounded.columns}, rounded.group_of);
}

using Tensors = std::map<std::string, StoredTensor>;

Tensors Bytes(const Scheme& scheme, const Rounded& rounded, const std::string& base,
              const char* scale_name) {
  std::vector<uint8_t> bytes;
  for (const int code : rounded.codes) {
    bytes.push_back(static_cast<uint8_t>(scheme.is_float ? code : code - 128));
  }
  StoredTensor scales = Scales(rounded, "BF16", false);
  if (scheme.block_rows > rounded.rows) {  // one for the matrix
    scales.shape = {1};
    scales.bytes.resize(2);
  } else if (scheme.block_rows > 0) {
    std::string kept;
    const auto row_bytes = static_cast<size_t>(2 * rounded.groups);
    for (int64_t row = 0; row < rounded.rows; row += scheme.block_rows) {
      kept += scales.bytes.substr(static_cast<size_t>(row) * row_bytes, row_bytes);
    }
    scales.shape[0] = (rounded.rows + scheme.block_rows - 1) / scheme.block_rows;
    scales.bytes = kept;
  }
  return {{base + "weight",
           Stored(scheme.is_float ? "F8_E4M3" : "I8", {rounded.rows, rounded.columns}, bytes)},
          {base + scale_name, scales}};
}

Tensors Packed(const Scheme& scheme, const Rounded& rounded, const std::string& base) {
  const int per_word = 32 / scheme.bits;
  Words codes(rounded.rows, (rounded.columns + per_word - 1) / per_word, scheme.bits);
  Words zeros((rounded.rows + per_word - 1) / per_word, rounded.groups, scheme.bits);
  for (int64_t row = 0; row < rounded.rows; ++row) {
    for (int64_t k = 0; k < rounded.columns; ++k) {
      codes.Put(row, k / per_word, k % per_word,
                rounded.codes[static_cast<size_t>(row * rounded.columns + k)]);
    }
    for (int64_t group = 0; group < rounded.groups; ++group) {
      zeros.Put(row / per_word, group, row % per_word,
                rounded.zeros[static_cast<size_t>(row * rounded.groups + group)]);
    }
  }
  Tensors out = {{base + "weight_packed", codes.Take()},
                 {base + "weight_scale", Scales(rounded, "BF16", false)},
                 {base + "weight_shape",
                  Stored("I64", {2}, std::vector<int64_t>{rounded.rows, rounded.columns})}};
  if (scheme.has_zeros) out[base + "weight_zero_point"] = zeros.Take();
  if (scheme.has_order) out[base + "weight_g_idx"] = GroupIndex(rounded);
  return out;
}

Tensors ByInput(const Scheme& scheme, const Rounded& rounded, const std::string& base, bool is_awq,
                int less) {
  const int per_word = 32 / scheme.bits;
  const int slot_of[] = {0, 4, 1, 5, 2, 6, 3, 7};  // AWQ's position of output i of eight
  Words codes(is_awq ? rounded.columns : rounded.columns / per_word,
              is_awq ? rounded.rows / per_word : rounded.rows, scheme.bits);
  Words zeros(rounded.groups, rounded.rows / per_word, scheme.bits);
  const int mask = (1 << scheme.bits) - 1;
  for (int64_t row = 0; row < rounded.rows; ++row) {
    const int64_t slot = is_awq ? slot_of[row % per_word] : row % per_word;
    for (int64_t k = 0; k < rounded.columns; ++k) {
      const int code = rounded.codes[static_cast<size_t>(row * rounded.columns + k)];
      if (is_awq) {
        codes.Put(k, row / per_word, slot, code);
      } else {
        codes.Put(k / per_word, row, k % per_word, code);
      }
    }
    for (int64_t group = 0; group < rounded.groups; ++group) {
      const int zero = rounded.zeros[static_cast<size_t>(row * rounded.groups + group)];
      zeros.Put(group, row / per_word, slot, (zero - less) & mask);
    }
  }
  Tensors out = {{base + "qweight", codes.Take()},
                 {base + "qzeros", zeros.Take()},
                 {base + "scales", Scales(rounded, "F16", true)}};
  if (!is_awq) out[base + "g_idx"] = GroupIndex(rounded);
  return out;
}

Json CompressedTensors(const char* format, Json weights) {
  const Json group = {{"targets", {"Linear"}},
                      {"weights", std::move(weights)},
                      {"input_activations", nullptr},
                      {"output_activations", nullptr}};
  return {{"quant_method", "compressed-tensors"}, {"format", format},
          {"quantization_status", "compressed"},  {"ignore", {"lm_head"}},
          {"kv_cache_scheme", nullptr},           {"config_groups", {{"group_0", group}}}};
}

Json Weights(int bits, const char* type, bool symmetric, const char* strategy) {
  return {{"num_bits", bits},           {"type", type},
          {"symmetric", symmetric},     {"strategy", strategy},
          {"dynamic", false},           {"group_size", nullptr},
          {"block_structure", nullptr}, {"actorder", nullptr},
          {"observer", "minmax"},       {"observer_kwargs", Json::object()}};
}

Json Gptq(int bits, bool has_order, const char* format) {
  return {{"quant_method", "gptq"}, {"bits", bits}, {"group_size", kQuantizedGroup},
          {"desc_act", has_order},  {"sym", false}, {"checkpoint_format", format}};
}

// The E2M1 code nearest to `value`: a sign bit above 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
uint8_t NearestFp4(float value) {
  const float magnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  uint8_t best = 0;
  for (uint8_t code = 1; code < 8; ++code) {
    if (std::fabs(magnitudes[code] - std::fabs(value)) <
        std::fabs(magnitudes[best] - std::fabs(value))) {
      best = code;
    }
  }
  return value < 0 ? best | 8 : best;
}

}  // namespace

Result<StoredAs> ParseStoredAs(const std::string& name) {
  static const std::map<std::string, StoredAs> kNames = {{"int8", StoredAs::kInt8Rows},
                                                         {"fp8", StoredAs::kFp8Tensor},
                                                         {"fp8-channel", StoredAs::kFp8Channel},
                                                         {"fp8-block", StoredAs::kFp8Block},
                                                         {"packed4", StoredAs::kPacked4},
                                                         {"packed8", StoredAs::kPacked8},
                                                         {"gptq", StoredAs::kGptq},
                                                         {"gptq-order", StoredAs::kGptqOrder},
                                                         {"awq", StoredAs::kAwq},
                                                         {"mxfp4", StoredAs::kMxfp4}};
  const auto found = kNames.find(name);
  if (found == kNames.end()) return InvalidArgument("no way to store weights: " + name);
  return found->second;
}

Json QuantizationConfig(StoredAs stored) {
  switch (stored) {
    case StoredAs::kFloats: return nullptr;
    case StoredAs::kMxfp4:
      return {
          {"quant_method", "mxfp4"},
          {"modules_to_not_convert", {"model.layers.*.self_attn", "model.layers.*.mlp.router"}}};
    case StoredAs::kInt8Rows:
      return CompressedTensors("int-quantized", Weights(8, "int", true, "channel"));
    case StoredAs::kFp8Tensor:
      return CompressedTensors("float-quantized", Weights(8, "float", true, "tensor"));
    case StoredAs::kFp8Channel:
      return CompressedTensors("float-quantized", Weights(8, "float", true, "channel"));
    case StoredAs::kFp8Block:
    case StoredAs::kFp8Block128: {
      const int block = SchemeOf(stored).block_rows;
      return {{"quant_method", "fp8"},
              {"activation_scheme", "dynamic"},
              {"fmt", "e4m3"},
              {"weight_block_size", {block, block}}};
    }
    case StoredAs::kPacked8:
      return CompressedTensors("pack-quantized", Weights(8, "int", true, "channel"));
    case StoredAs::kPacked4:
    case StoredAs::kPacked4Zeros:
    case StoredAs::kPacked4Order: {
      Json weights = Weights(4, "int", stored == StoredAs::kPacked4, "group");
      weights["group_size"] = kQuantizedGroup;
      if (stored == StoredAs::kPacked4Order) weights["actorder"] = "group";
      return CompressedTensors("pack-quantized", weights);
    }
    case StoredAs::kGptq: return Gptq(4, false, "gptq");
    case StoredAs::kGptqOrder: return Gptq(4, true, "gptq_v2");
    case StoredAs::kGptq8: return Gptq(8, false, "gptq");
    case StoredAs::kAwq:
      return {{"quant_method", "awq"},
              {"bits", 4},
              {"group_size", kQuantizedGroup},
              {"version", "gemm"},
              {"zero_point", true}};
  }
  return nullptr;
}

std::map<std::string, StoredTensor> QuantizedTensorsOf(StoredAs stored, const std::string& base,
                                                       std::span<const float> values, int64_t rows,
                                                       int64_t columns) {
  const Scheme scheme = SchemeOf(stored);
  const Rounded rounded = Round(scheme, values, rows, columns);
  switch (stored) {
    case StoredAs::kFloats:
    case StoredAs::kMxfp4: break;
    case StoredAs::kInt8Rows:
    case StoredAs::kFp8Tensor:
    case StoredAs::kFp8Channel: return Bytes(scheme, rounded, base, "weight_scale");
    case StoredAs::kFp8Block:
    case StoredAs::kFp8Block128: return Bytes(scheme, rounded, base, "weight_scale_inv");
    case StoredAs::kPacked4:
    case StoredAs::kPacked4Zeros:
    case StoredAs::kPacked4Order:
    case StoredAs::kPacked8: return Packed(scheme, rounded, base);
    case StoredAs::kGptq:
    case StoredAs::kGptq8: return ByInput(scheme, rounded, base, false, 1);
    case StoredAs::kGptqOrder: return ByInput(scheme, rounded, base, false, 0);
    case StoredAs::kAwq: return ByInput(scheme, rounded, base, true, 0);
  }
  return {};
}

Tensors Mxfp4TensorsOf(const std::string& name, std::span<const float> values,
                       std::span<const int64_t> shape) {
  const int64_t experts = shape[0], inputs = shape[1], outputs = shape[2], groups = inputs / 32;
  std::vector<uint8_t> blocks, scales;
  for (int64_t row = 0; row < experts * outputs; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      float group_values[32], largest = 0;
      for (int64_t i = 0; i < 32; ++i) {
        const int64_t index = (row / outputs * inputs + group * 32 + i) * outputs + row % outputs;
        group_values[i] = values[static_cast<size_t>(index)];
        largest = std::max(largest, std::fabs(group_values[i]));
      }
      const int exponent = largest > 0 ? static_cast<int>(std::floor(std::log2(largest))) - 2 : 0;
      scales.push_back(static_cast<uint8_t>(exponent + 127));
      for (int i = 0; i < 32; i += 2) {
        const uint8_t low = NearestFp4(std::ldexp(group_values[i], -exponent));
        const uint8_t high = NearestFp4(std::ldexp(group_values[i + 1], -exponent));
        blocks.push_back(static_cast<uint8_t>(low | high << 4));
      }
    }
  }
  return {{name + "_blocks", Stored("U8", {experts, outputs, groups, 16}, blocks)},
          {name + "_scales", Stored("U8", {experts, outputs, groups}, scales)}};
}

}  // namespace outrider
