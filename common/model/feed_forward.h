// The feed-forward half of a layer, between its norms: which products it is made of and the working
// memory of them, which all layers share.
//
// Owner: LayerStack. Thread: the backend's.
#pragma once

#include <memory>

#include "common/backend/backend.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/weights.h"

namespace outrider {

class FeedForward {
 public:
  // Both must outlive it.
  FeedForward(const ModelConfig* config, Backend* backend) : config_(*config), backend_(*backend) {}

  // Memory for batches of up to `rows` rows. kResourceExhausted when memory is out.
  Status Allocate(int rows);
  // out[rows, hidden] = what layer `index` makes of x[rows, hidden], or out += when `accumulate`.
  // `out` may be x where it does not accumulate.
  void Run(int index, const LayerWeights& weights, const float* x, int rows, bool accumulate,
           float* out);

 private:
  const ModelConfig& config_;
  Backend& backend_;
  std::unique_ptr<Buffer> gate_up_;  // [rows, 2 * intermediate]
  std::unique_ptr<Buffer> gated_;    // [rows, intermediate]
};

}  // namespace outrider
