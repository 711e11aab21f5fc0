#include "common/model/feed_forward.h"

namespace outrider {

Status FeedForward::Allocate(int rows) {
  const auto values = static_cast<size_t>(rows) * static_cast<size_t>(config_.intermediate_size);
  OUTRIDER_ASSIGN(gate_up_, backend_.Allocate(2 * values * sizeof(float)));
  OUTRIDER_ASSIGN(gated_, backend_.Allocate(values * sizeof(float)));
  return Status();
}

void FeedForward::Run(int index, const LayerWeights& weights, const float* x, int rows,
                      bool accumulate, float* out) {
  const MlpDescription& described = config_.layers[static_cast<size_t>(index)].mlp;
  backend_.MatMul(*weights.gate_up, x, rows, FloatsOf(weights.gate_up_bias), /*accumulate=*/false,
                  gate_up_->floats());
  backend_.Glu(described.activation, gate_up_->floats(), rows, config_.intermediate_size,
               gated_->floats());
  backend_.MatMul(*weights.down, gated_->floats(), rows, FloatsOf(weights.down_bias), accumulate,
                  out);
}

}  // namespace outrider
