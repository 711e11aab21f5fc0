// The feed-forward half of a layer, an MLP or a mixture of experts, between its norms: which ops it
// is made of and their working memory, which all layers share.
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

  // Of the working memory, in bytes.
  struct Sizes {
    size_t gate_up = 0;
    size_t gated = 0;
    size_t logits = 0;
    size_t routing = 0;
    size_t returned = 0;

    size_t all() const { return gate_up + gated + logits + routing + returned; }
  };
  // What Allocate takes for batches of up to `rows` rows.
  static Sizes SizesOf(const ModelConfig& config, int rows);

  // Memory for batches of up to `rows` rows. kResourceExhausted when memory is out.
  Status Allocate(int rows);
  // out[rows, hidden] = what layer `index` makes of x[rows, hidden], or out += when `accumulate`.
  // `out` may be x where it does not accumulate.
  void Run(int index, const LayerWeights& weights, const float* x, int rows, bool accumulate,
           float* out);

 private:
  void RunMixture(const MlpDescription& described, const MixtureWeights& weights, const float* x,
                  int rows, bool accumulate, float* out);

  const ModelConfig& config_;
  Backend& backend_;
  // A mixture has a row of these for each pair of a row and one of its experts.
  std::unique_ptr<Buffer> gate_up_;  // [rows, 2 * intermediate]
  std::unique_ptr<Buffer> gated_;    // [rows, intermediate]
  // Of mixtures; null without:
  std::unique_ptr<Buffer> logits_;    // [rows, experts]
  std::unique_ptr<Buffer> routing_;   // an ExpertRouting
  std::unique_ptr<Buffer> returned_;  // [rows * top_k, hidden] what experts return
};

}  // namespace outrider
