// The feed-forward half of a layer, an MLP or a mixture of experts, without its norms: the ops and
// their working memory, which all layers share.
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
  // Both must outlive this object.
  FeedForward(const ModelConfig* config, Backend* backend) : config_(*config), backend_(*backend) {}

  // Bytes of working memory.
  struct Sizes {
    size_t gate_up = 0;
    size_t gated = 0;
    size_t logits = 0;
    size_t routing = 0;
    size_t returned = 0;

    size_t all() const { return gate_up + gated + logits + routing + returned; }
  };
  // The bytes that Allocate needs for batches of up to `rows` rows.
  static Sizes SizesOf(const ModelConfig& config, int rows);

  // Allocates memory for batches of up to `rows` rows. kResourceExhausted when out of memory.
  Status Allocate(int rows);
  // out[rows, hidden] = the result of layer `index` for x[rows, hidden], or out += when
  // `accumulate`. Without `accumulate`, `out` may be x.
  void Run(int index, const LayerWeights& weights, const float* x, int rows, bool accumulate,
           float* out);

 private:
  void RunMixture(const MlpDescription& described, const MixtureWeights& weights, const float* x,
                  int rows, bool accumulate, float* out);

  const ModelConfig& config_;
  Backend& backend_;
  // A mixture has one row of these for each pair of a row and one of its experts.
  std::unique_ptr<Buffer> gate_up_;  // [rows, 2 * intermediate]
  std::unique_ptr<Buffer> gated_;    // [rows, intermediate]
  // Only for mixtures, otherwise null:
  std::unique_ptr<Buffer> logits_;    // [rows, experts]
  std::unique_ptr<Buffer> routing_;   // an ExpertRouting
  std::unique_ptr<Buffer> returned_;  // [rows * top_k, hidden] results of the experts
};

}  // namespace outrider
