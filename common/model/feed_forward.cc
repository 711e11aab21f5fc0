#include "common/model/feed_forward.h"

#include <algorithm>

namespace outrider {

FeedForward::Sizes FeedForward::SizesOf(const ModelConfig& config, int rows) {
  const auto height = static_cast<size_t>(rows);
  Sizes sizes;
  size_t gated = 0;  // elements
  for (const LayerDescription& layer : config.layers) {
    if (!layer.mlp.mixture) {
      gated = std::max(gated, height * static_cast<size_t>(config.intermediate_size));
      continue;
    }
    const MixtureDescription& mixture = *layer.mlp.mixture;
    const size_t pairs = height * static_cast<size_t>(mixture.router.top_k);
    gated = std::max(gated, pairs * static_cast<size_t>(mixture.intermediate_size));
    const auto larger = [](size_t* size, size_t values) {
      *size = std::max(*size, values * sizeof(float));
    };
    larger(&sizes.logits, height * static_cast<size_t>(mixture.router.experts));
    larger(&sizes.returned, pairs * static_cast<size_t>(config.hidden_size));
    sizes.routing = std::max(sizes.routing, ExpertRouting::Bytes(mixture.router, rows));
  }
  sizes.gated = gated * sizeof(float);
  sizes.gate_up = 2 * sizes.gated;
  return sizes;
}

Status FeedForward::Allocate(int rows) {
  const Sizes sizes = SizesOf(config_, rows);
  OUTRIDER_ASSIGN(gate_up_, backend_.Allocate(sizes.gate_up));
  OUTRIDER_ASSIGN(gated_, backend_.Allocate(sizes.gated));
  if (sizes.routing == 0) return Status();
  OUTRIDER_ASSIGN(logits_, backend_.Allocate(sizes.logits));
  OUTRIDER_ASSIGN(routing_, backend_.Allocate(sizes.routing));
  OUTRIDER_ASSIGN(returned_, backend_.Allocate(sizes.returned));
  return Status();
}

void FeedForward::Run(int index, const LayerWeights& weights, const float* x, int rows,
                      bool accumulate, float* out) {
  const MlpDescription& described = config_.layers[static_cast<size_t>(index)].mlp;
  if (described.mixture) {
    return RunMixture(described, weights.mixture, x, rows, accumulate, out);
  }
  backend_.GatedMatMul(*weights.gate_up, x, rows, FloatsOf(weights.gate_up_bias),
                       described.activation, gate_up_->floats(), gated_->floats(),
                       Consumers::kProducts);
  backend_.MatMul(*weights.down, gated_->floats(), rows, FloatsOf(weights.down_bias), accumulate,
                  out);
}

void FeedForward::RunMixture(const MlpDescription& described, const MixtureWeights& weights,
                             const float* x, int rows, bool accumulate, float* out) {
  const RouterShape& shape = described.mixture->router;
  const ExpertRouting routing = ExpertRouting::At(routing_->data(), shape, rows);
  backend_.RouterLogits(*weights.router, x, rows, FloatsOf(weights.router_bias), logits_->floats());
  backend_.RouteRows(logits_->floats(), rows, shape, routing);
  backend_.ExpertMatMul(*weights.gate_up, shape, routing, rows, x, /*x_by_row=*/true,
                        FloatsOf(weights.gate_up_bias), gate_up_->floats());
  backend_.Glu(described.activation, gate_up_->floats(), rows * shape.top_k,
               described.mixture->intermediate_size, gated_->floats(), Consumers::kAny);
  backend_.ExpertMatMul(*weights.down, shape, routing, rows, gated_->floats(), /*x_by_row=*/false,
                        FloatsOf(weights.down_bias), returned_->floats());
  backend_.CombineExperts(returned_->floats(), shape, routing, rows, config_.hidden_size,
                          accumulate, out);
}

}  // namespace outrider
