#include "tests/support/dequantize.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace outrider {
namespace {

using Json = nlohmann::json;
using Tensors = std::map<std::string, WideTensor>;

// Integer number `index` of a word with 32 / bits of them, counted from its low end.
int Unpacked(double word, int index, int bits) {
  return static_cast<int>(static_cast<uint32_t>(word) >> bits * index & ((1u << bits) - 1));
}

double At(const WideTensor& tensor, int64_t row, int64_t column) {
  return tensor.values.at(static_cast<size_t>(row * tensor.shape.at(1) + column));
}

WideTensor Empty(int64_t rows, int64_t columns) {
  return {{rows, columns}, std::vector<double>(static_cast<size_t>(rows * columns))};
}

double& Element(WideTensor& tensor, int64_t row, int64_t column) {
  return tensor.values[static_cast<size_t>(row * tensor.shape[1] + column)];
}

// compressed-tensors/compressors/quantized_compressors: W = weight * weight_scale, with one scale
// per matrix, per output, or per block; "fp8" of transformers is the same with weight_scale_inv.
WideTensor Scaled(const WideTensor& codes, const WideTensor& scale, int64_t block) {
  const int64_t rows = codes.shape[0], columns = codes.shape[1];
  WideTensor out = codes;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < columns; ++k) {
      double by = scale.values[0];
      if (block > 0) {
        by = At(scale, row / block, k / block);
      } else if (scale.values.size() > 1) {
        by = scale.values[static_cast<size_t>(row)];
      }
      Element(out, row, k) *= by;
    }
  }
  return out;
}

// compressed-tensors, pack_to_int32: value + 2^(bits - 1) from the low end of each word; zero
// points likewise, but along the outputs. W = (value - zero point) * scale.
WideTensor FromPacked(const Tensors& tensors, const std::string& base, int bits) {
  const WideTensor& packed = tensors.at(base + "weight_packed");
  const WideTensor& shape = tensors.at(base + "weight_shape");
  const WideTensor& scale = tensors.at(base + "weight_scale");
  const auto rows = static_cast<int64_t>(shape.values[0]);
  const auto columns = static_cast<int64_t>(shape.values[1]);
  const int per_word = 32 / bits, half = 1 << (bits - 1);
  const auto zeros = tensors.find(base + "weight_zero_point");
  const auto order = tensors.find(base + "weight_g_idx");
  const int64_t group_size = (columns + scale.shape[1] - 1) / scale.shape[1];
  WideTensor out = Empty(rows, columns);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < columns; ++k) {
      const int64_t group =
          order != tensors.end() ? static_cast<int64_t>(order->second.values[k]) : k / group_size;
      const int value =
          Unpacked(At(packed, row, k / per_word), static_cast<int>(k % per_word), bits) - half;
      int zero = 0;
      if (zeros != tensors.end()) {
        zero = Unpacked(At(zeros->second, row / per_word, group), static_cast<int>(row % per_word),
                        bits) -
               half;
      }
      Element(out, row, k) = (value - zero) * At(scale, row, group);
    }
  }
  return out;
}

// AutoGPTQ/nn_modules/qlinear/qlinear_cuda_old.py, forward: qweight [in / n, out] along the inputs,
// qzeros [groups, out / n] along the outputs, which the first format stores minus one.
WideTensor FromGptq(const Tensors& tensors, const std::string& base, int bits, bool less_one) {
  const WideTensor& qweight = tensors.at(base + "qweight");
  const WideTensor& qzeros = tensors.at(base + "qzeros");
  const WideTensor& scales = tensors.at(base + "scales");
  const WideTensor& order = tensors.at(base + "g_idx");
  const int per_word = 32 / bits;
  const int64_t columns = qweight.shape[0] * per_word, rows = qweight.shape[1];
  WideTensor out = Empty(rows, columns);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < columns; ++k) {
      const auto group = static_cast<int64_t>(order.values[static_cast<size_t>(k)]);
      const int value =
          Unpacked(At(qweight, k / per_word, row), static_cast<int>(k % per_word), bits);
      int zero =
          Unpacked(At(qzeros, group, row / per_word), static_cast<int>(row % per_word), bits);
      if (less_one) zero = (zero + 1) % (1 << bits);
      Element(out, row, k) = (value - zero) * At(scales, group, row);
    }
  }
  return out;
}

// AutoAWQ/awq/modules/linear/gemm.py, from_linear: word j of an input has outputs 8 j + order[i] at
// bit 4 i, with the order 0, 2, 4, 6, 1, 3, 5, 7.
WideTensor FromAwq(const Tensors& tensors, const std::string& base) {
  const WideTensor& qweight = tensors.at(base + "qweight");
  const WideTensor& qzeros = tensors.at(base + "qzeros");
  const WideTensor& scales = tensors.at(base + "scales");
  const int64_t columns = qweight.shape[0], rows = qweight.shape[1] * 8;
  const int64_t group_size = columns / scales.shape[0];
  const int order[] = {0, 2, 4, 6, 1, 3, 5, 7};
  WideTensor out = Empty(rows, columns);
  for (int64_t k = 0; k < columns; ++k) {
    for (int64_t word = 0; word < rows / 8; ++word) {
      for (int i = 0; i < 8; ++i) {
        const int64_t row = 8 * word + order[i];
        const int value = Unpacked(At(qweight, k, word), i, 4);
        const int zero = Unpacked(At(qzeros, k / group_size, word), i, 4);
        Element(out, row, k) = (value - zero) * At(scales, k / group_size, row);
      }
    }
  }
  return out;
}

// transformers/integrations/mxfp4.py, convert_moe_packed_tensors: byte i of a block has the codes
// of inputs 2 i (low half) and 2 i + 1, with a power of two per block; then inputs and outputs are
// transposed.
WideTensor FromMxfp4(const WideTensor& blocks, const WideTensor& scales) {
  const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const auto experts = static_cast<size_t>(blocks.shape[0]);
  const auto outputs = static_cast<size_t>(blocks.shape[1]);
  const auto inputs = static_cast<size_t>(blocks.shape[2]) * 32;
  WideTensor out = {{blocks.shape[0], blocks.shape[2] * 32, blocks.shape[1]}, {}};
  out.values.resize(experts * inputs * outputs);
  for (size_t i = 0; i < out.values.size(); ++i) {
    const size_t input = i % inputs, output = i / inputs % outputs, expert = i / inputs / outputs;
    const int code = static_cast<int>(blocks.values[i / 2]) >> 4 * (i % 2) & 15;
    const double magnitude =
        std::ldexp(values[code & 7], static_cast<int>(scales.values[i / 32]) - 127);
    out.values[(expert * inputs + input) * outputs + output] = code & 8 ? -magnitude : magnitude;
  }
  return out;
}

// "X." for each tensor "X.<suffix>".
std::vector<std::string> BasesOf(const Tensors& tensors, const std::string& suffix) {
  std::vector<std::string> bases;
  for (const auto& [name, tensor] : tensors) {
    if (name.ends_with("." + suffix)) bases.push_back(name.substr(0, name.size() - suffix.size()));
  }
  return bases;
}

}  // namespace

void DequantizeTensors(const Json& config, Tensors* tensors) {
  const std::string method = config["quant_method"];
  if (method == "gptq") {
    for (const std::string& base : BasesOf(*tensors, "qweight")) {
      (*tensors)[base + "weight"] = FromGptq(*tensors, base, config["bits"],
                                             config.value("checkpoint_format", "gptq") == "gptq");
    }
    return;
  }
  if (method == "mxfp4") {
    const std::string suffix = "_blocks";
    std::vector<std::string> names;
    for (const auto& [name, tensor] : *tensors) {
      if (name.ends_with(suffix)) names.push_back(name.substr(0, name.size() - suffix.size()));
    }
    for (const std::string& name : names) {
      (*tensors)[name] = FromMxfp4(tensors->at(name + "_blocks"), tensors->at(name + "_scales"));
    }
    return;
  }
  if (method == "awq") {
    for (const std::string& base : BasesOf(*tensors, "qweight")) {
      (*tensors)[base + "weight"] = FromAwq(*tensors, base);
    }
    return;
  }
  for (const std::string& base : BasesOf(*tensors, "weight_packed")) {
    const Json weights = config["config_groups"]["group_0"]["weights"];
    (*tensors)[base + "weight"] = FromPacked(*tensors, base, weights["num_bits"]);
  }
  for (const char* suffix : {"weight_scale", "weight_scale_inv"}) {
    for (const std::string& base : BasesOf(*tensors, suffix)) {
      if (tensors->contains(base + "weight_packed")) continue;
      int64_t block = 0;
      if (config.contains("weight_block_size")) block = config["weight_block_size"][0];
      (*tensors)[base + "weight"] =
          Scaled(tensors->at(base + "weight"), tensors->at(base + suffix), block);
    }
  }
}

}  // namespace outrider
