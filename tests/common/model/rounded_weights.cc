#include "tests/common/model/rounded_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {
namespace {

// Rounds one row to codes of `steps` on either side of 0 with a scale for each `group` values.
void RoundToCodes(std::span<float> row, size_t group, float steps) {
  for (size_t first = 0; first < row.size(); first += group) {
    const std::span<float> part = row.subspan(first, std::min(group, row.size() - first));
    float largest = 0;
    for (const float value : part) largest = std::max(largest, std::fabs(value));
    for (float& value : part) {
      value = std::nearbyint(value * (steps / largest)) * (largest / steps);
    }
  }
}

}  // namespace

void RoundMatrices(const std::filesystem::path& file, WeightType type) {
  std::ifstream in(file, std::ios::binary);
  auto tensors = ReadSafetensors(std::string(std::istreambuf_iterator<char>(in), {}));
  for (auto& [name, tensor] : tensors) {
    if (tensor.shape.size() != 2 || name.ends_with(".gate.weight")) continue;  // norms, routers
    const Dtype dtype = tensor.dtype == "F32" ? Dtype::kF32 : Dtype::kBf16;
    const TensorView view = {tensor.bytes.data(), dtype, tensor.shape};
    std::vector<float> values(view.elements());
    LoadElements(view, 0, values);
    const bool is_token_table = name.find("layers") == std::string::npos;
    const bool is_int4 = type == WeightType::kW4A16 && !is_token_table;
    const auto columns = static_cast<size_t>(tensor.shape[1]);
    for (size_t row = 0; row < values.size(); row += columns) {
      RoundToCodes(std::span(values).subspan(row, columns), is_int4 ? 128 : columns,
                   is_int4 ? 7.f : 127.f);
    }
    tensor.dtype = "F32";
    tensor.bytes.assign(reinterpret_cast<const char*>(values.data()),
                        values.size() * sizeof(float));
  }
  EXPECT_TRUE(WriteSafetensors(file, tensors).ok());
}

}  // namespace outrider
