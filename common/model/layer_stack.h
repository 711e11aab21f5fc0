// The layers of a decoder on its backend: weights, keys and values, working memory, and the ops
// from a batch's tokens to the logits of the requested rows. It knows slots of the cache, but no
// sequences: those are Transformer's.
//
// Owner: Transformer. Thread: the backend's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/backend/backend.h"
#include "common/backend/communicator.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/feed_forward.h"
#include "common/model/transformer.h"
#include "common/model/weights.h"

namespace outrider {

// The attention shape of each layer, without sinks.
std::vector<AttentionShape> ShapesOf(const ModelConfig& config, const ModelOptions& options);

class LayerStack {
 public:
  // `config` (a rank's, of several) and `backend` must outlive this object.
  LayerStack(const ModelConfig* config, const ModelOptions& options, Backend* backend,
             Weights weights);

  // Makes this one of several ranks. To be called before Allocate; `communicator` must outlive this
  // object.
  void Join(Communicator* communicator) { communicator_ = communicator; }

  // Allocates memory for `pages` pages and the largest batch. kResourceExhausted when out of
  // memory.
  Status Allocate(int pages);

  // Runs the whole model, from the tokens (if the batch has none, those that the device sampled) to
  // the logits of the requested rows.
  void Run(const BatchLayout& batch);
  // The same as one pass of the device, if there is one.
  void RunPass(const BatchLayout& batch);
  // Captures the device's graphs of passes like this one. REQUIRES: a device.
  void Capture(const BatchLayout& batch);
  void CopyKvSlots(std::span<const SlotCopy> copies) {
    backend_.CopyKvSlots(kv_, shapes_[0], copies);
  }

  const AttentionShape& first_shape() const { return shapes_[0]; }
  // The distinct windows of all layers.
  std::span<const int32_t> windows() const { return windows_; }
  // For the requested rows of the last batch: [rows, vocab] logits, which only the leading rank
  // has, and the normalised states [rows, hidden].
  float* logits() { return work_.logits->floats(); }
  const float* states() const { return work_.normed->floats(); }

 private:
  // Activations of one batch; `rows` is max_batch_tokens.
  struct Workspace {
    std::unique_ptr<Buffer> residual;   // [rows, hidden]
    std::unique_ptr<Buffer> normed;     // [rows, hidden]
    std::unique_ptr<Buffer> qkv;        // [rows, (heads + 2 kv_heads) * head_dim]
    std::unique_ptr<Buffer> attention;  // [rows, heads * head_dim]
    // For the rows whose logits are requested:
    std::unique_ptr<Buffer> chosen_residual;   // [rows, hidden]
    std::unique_ptr<Buffer> chosen_attention;  // [rows, heads * head_dim]
    std::unique_ptr<Buffer> logits;            // [rows, vocab]; null if another rank leads
    std::unique_ptr<Buffer> own_logits;        // [rows, a rank's logits]; null without ranks
  };
  struct KvBuffers {
    std::unique_ptr<Buffer> keys, values;
  };

  Status AllocateWorkspace();
  Status MakeRopeTables(int positions);
  void RunLayer(int index, const BatchLayout& batch);
  void RunQkv(int index, int rows);
  const float* Normed(const std::unique_ptr<Buffer>& gain, const float* residual, int rows,
                      Consumers consumers);
  void RunHead(int rows);
  bool leads() const { return communicator_ == nullptr || communicator_->rank() == 0; }
  void SumOverRanks(float* values, int rows);
  template <class Half>
  void AddHalf(const std::unique_ptr<Buffer>& norm_after, int rows, float* residual,
               const Half& half);

  int q_width() const { return config_.num_heads * config_.head_dim; }
  int qkv_width() const {
    return (config_.num_heads + 2 * config_.num_kv_heads) * config_.head_dim;
  }

  const ModelConfig& config_;
  const ModelOptions options_;
  Backend& backend_;
  Communicator* communicator_ = nullptr;  // null: there is one rank
  const Weights weights_;
  const std::vector<AttentionShape> shapes_;  // by layer
  const std::vector<int32_t> windows_;
  std::vector<KvBuffers> kv_buffers_;
  std::vector<KvLayer> kv_;                           // views of kv_buffers_
  std::vector<std::unique_ptr<Buffer>> rope_tables_;  // one per kind; null: no rotation
  std::vector<const float*> ropes_;                   // by layer, into rope_tables_
  Workspace work_;
  FeedForward feed_forward_;
};

}  // namespace outrider
