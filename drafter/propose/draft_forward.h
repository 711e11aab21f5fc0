// Runs the draft model over shares of sessions and reads from its logits rows what drafts are drawn
// from, where the rows are. The only part of the loop that calls Model::Forward, Draft and
// DraftChains.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/backend/pick_batch.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "drafter/propose/draft_rows.h"
#include "drafter/propose/pass_plan.h"

namespace outrider {

// What a forward pass computed of one share: [share.logit_rows] rows.
struct ShareRows {
  DraftRows rows;
  // [logit_rows, hidden_size]: the last hidden states; empty: nobody in the pass wants them.
  std::span<const float> states;
};

class DraftForward {
 public:
  struct Pass {
    std::vector<ShareRows> shares;  // in their order
    int device_rows = 0;            // read on the model's device
    int64_t device_bytes = 0;       // that came from there
  };
  struct Chains {
    std::span<const PickedRow> rows;  // [depths, shares]
    int64_t device_bytes = 0;
  };

  // `max_tokens`: of a pass. `model` must outlive it.
  DraftForward(Model* model, int max_tokens) : model_(model), max_tokens_(max_tokens) {}

  // Whether rows are read on the model's device, which then can draw several depths in one go.
  bool on_device() const { return model_->drafts(); }
  // So far.
  GraphCounts graph_counts() const { return model_->graph_counts(); }

  // One forward pass. What it returns is valid until the next call.
  Result<Pass> Run(std::span<const PassShare> shares);
  // Several depths of drafts of one sequence each, without the host between them. What it returns
  // is valid until the next call. REQUIRES: on_device(), and each session draws_chain().
  Result<Chains> RunChains(std::span<const PassShare> shares, int depths);

 private:
  // Leaves in draws_ what is to be read on a device.
  Status Forward(std::span<const PassShare> shares, ForwardOutput* output);

  Model* const model_;
  const int max_tokens_;
  PickBatch draws_;
};

}  // namespace outrider
