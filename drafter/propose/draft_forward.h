// Runs the draft model over shares of sessions and picks from its logits what drafting needs. Only
// this part of the loop calls Model::Forward, Draft and DraftChains.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/backend/pick_batch.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "drafter/propose/pass_plan.h"

namespace outrider {

// The result of a forward pass for one share: [share.logit_rows] rows.
struct ShareRows {
  std::span<const PickedRow> rows;
  // [logit_rows, hidden_size]: the last hidden states; empty if nothing in the pass needs them.
  std::span<const float> states;
};

class DraftForward {
 public:
  struct Pass {
    std::vector<ShareRows> shares;  // in the order of the pass
    int device_rows = 0;            // picked from on a device
    int64_t device_bytes = 0;       // copied from there
  };
  struct Chains {
    std::span<const PickedRow> rows;  // [depths, shares]
    int64_t device_bytes = 0;
  };

  // `max_tokens`: per pass. `model` must outlive it.
  DraftForward(Model* model, int max_tokens) : model_(model), max_tokens_(max_tokens) {}

  // Whether several depths can be drafted in one go.
  bool on_device() const { return model_->device() != nullptr; }
  // So far.
  GraphCounts graph_counts() const;

  // Runs one forward pass. The result is valid until the next call.
  Result<Pass> Run(std::span<const PassShare> shares);
  // Drafts several depths of one sequence per draft on the device, without the host in between. The
  // result is valid until the next call. REQUIRES: on_device(), and each session draws_chain().
  Result<Chains> RunChains(std::span<const PassShare> shares, int depths);

 private:
  int64_t bytes_to_host() const;
  // Leaves in picks_ what is to be picked.
  Status Forward(std::span<const PassShare> shares, ForwardOutput* output);

  Model* const model_;
  const int max_tokens_;
  PickBatch picks_;
};

}  // namespace outrider
