// A residual MLP over one row with a single output:
//   x <- x + SiLU(W x + b)  `depth` times, then  w . x + c
// (Huang et al. 2024, SpecDec++, section 3.2: the acceptance head.)
//
// Thread: any; pure.
#pragma once

#include <cmath>
#include <cstddef>

#include "common/math/host_device.h"

namespace outrider {

// Parameters in one array: for each block W transposed [in, out] and b [width], followed by w
// [width] and c.
struct ResidualMlp {
  int width = 0;
  int depth = 0;
  const float* parameters = nullptr;  // [ResidualMlpSize]
};

OUTRIDER_HD constexpr size_t ResidualMlpSize(int width, int depth) {
  const auto w = static_cast<size_t>(width);
  return static_cast<size_t>(depth) * (w * w + w) + w + 1;
}

// `x` [width] is overwritten; `scratch` [width].
OUTRIDER_HD inline float ResidualMlpRow(const ResidualMlp& mlp, float* x, float* scratch) {
  const auto width = static_cast<size_t>(mlp.width);
  const float* p = mlp.parameters;
  for (int block = 0; block < mlp.depth; ++block) {
    const float* bias = p + width * width;
    for (size_t j = 0; j < width; ++j) scratch[j] = bias[j];
    for (size_t i = 0; i < width; ++i) {
      const float* row = p + i * width;
      for (size_t j = 0; j < width; ++j) scratch[j] += x[i] * row[j];
    }
    for (size_t j = 0; j < width; ++j) x[j] += scratch[j] / (1.f + std::exp(-scratch[j]));
    p += width * width + width;
  }
  float sum = p[width];
  for (size_t i = 0; i < width; ++i) sum += p[i] * x[i];
  return sum;
}

}  // namespace outrider
