// Picks the entries of logits rows from which a draft is sampled, like a model.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/backend/host_picks.h"
#include "common/spec/sequence_sampling.h"
#include "drafter/propose/draft_session.h"
#include "drafter/propose/draft_tree_builder.h"

namespace outrider::testing {

class RowPicker {
 public:
  // From `rows` [frontier, vocab] after `builder`'s frontier nodes. Valid until the next call.
  std::span<const PickedRow> Pick(const DraftTreeBuilder& builder, const SequenceSampling& sampling,
                                  std::vector<float> rows) {
    const PickSpec spec = builder.RowSpec(sampling.state().sampling, sampling.allowed());
    batch_.Clear();
    batch_.BeginSequence(sampling.state());
    for (const int32_t node : builder.frontier()) batch_.AddRow(spec, builder.tree().Path(node));
    return Read(std::move(rows));
  }
  // The same for a session.
  std::span<const PickedRow> Pick(const DraftSession& session, std::vector<float> rows) {
    batch_.Clear();
    session.AddRows(&batch_);
    return Read(std::move(rows));
  }

 private:
  std::span<const PickedRow> Read(std::vector<float> rows) {
    const auto vocab = rows.size() / static_cast<size_t>(batch_.size());
    return picks_.Read(batch_, rows.data(), static_cast<int>(vocab));
  }

  PickBatch batch_;
  HostPicks picks_;
};

}  // namespace outrider::testing
