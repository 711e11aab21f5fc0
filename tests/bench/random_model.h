// Models of known shapes with random weights, for benchmarks: the weights do not affect the speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/weights.h"

namespace outrider {

ModelConfig Llama8B();  // Llama 3.1 8B
ModelConfig Llama1B();  // Llama 3.2 1B
// A pair small enough for a test.
ModelConfig TinyTarget();
ModelConfig TinyDrafter();

// Random bits of bf16 values around 0.02; every matrix is a view into them.
class RandomWeights {
 public:
  explicit RandomWeights(size_t elements);
  // With as many elements as the largest matrix of `config`.
  explicit RandomWeights(const ModelConfig& config);

  // REQUIRES: it has at least as many elements.
  Result<std::unique_ptr<PackedMatrix>> Matrix(Backend& backend, int64_t out, int64_t in,
                                               WeightType type = WeightType::kBf16) const;
  Result<Weights> Make(const ModelConfig& config, Backend& backend,
                       WeightType type = WeightType::kBf16) const;

 private:
  std::vector<uint16_t> bits_;
};

}  // namespace outrider
