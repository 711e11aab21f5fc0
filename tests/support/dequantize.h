// Widens the quantized matrices of a checkpoint in double, according to the published layouts.
// Shares no code with common/model.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace outrider {

// A tensor as stored in its file: FP8 and integers as numbers, 32-bit words unsigned.
struct WideTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// Replaces the tensors of each quantized matrix "X" by "X.weight", or by "X" for stacked experts.
// `config` is "quantization_config" of config.json.
void DequantizeTensors(const nlohmann::json& config, std::map<std::string, WideTensor>* tensors);

}  // namespace outrider
