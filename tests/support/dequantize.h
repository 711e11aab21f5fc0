// Widens the quantized matrices of a checkpoint in double, according to the published layouts. It
// shares no code with common/model.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace outrider {

// A tensor as its file holds it: FP8 and integers as numbers, words of 32 bits unsigned.
struct WideTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// Replaces the tensors of each quantized matrix "X" by "X.weight", or by "X" for stacked experts.
// `config`: the "quantization_config" of config.json.
void DequantizeTensors(const nlohmann::json& config, std::map<std::string, WideTensor>* tensors);

}  // namespace outrider
