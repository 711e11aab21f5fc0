#include "common/rules/round_batch.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

void RoundBatch::Clear() {
  scratch_bytes_ = 0;
  rounds_.clear();
  seen_.clear();
  biases_.clear();
  suppressed_.clear();
  mask_.clear();
  bad_words_.clear();
  bad_tokens_.clear();
  recent_.clear();
  round_of_.clear();
  parents_.clear();
  depths_.clear();
  tokens_.clear();
  draws_begin_.assign(1, 0);
  draft_begin_.assign(1, 0);
  draws_.clear();
  draft_ids_.clear();
  draft_weights_.clear();
}

void RoundBatch::Add(const RoundSpec& spec, const DraftTree& draft, const SamplingState& sampling,
                     std::span<const uint32_t> node_masks, std::span<const int32_t> ends) {
  RoundHeader& round =
      rounds_.emplace_back(RoundHeader{.spec = spec,
                                       .sampling = sampling.sampling,
                                       .first_node = nodes(),
                                       .nodes = draft.size() + 1,
                                       .first_seen = static_cast<int32_t>(seen_.size()),
                                       .seen = static_cast<int32_t>(sampling.seen.size()),
                                       .first_bias = static_cast<int32_t>(biases_.size()),
                                       .biases = static_cast<int32_t>(sampling.biases.size()),
                                       .max_depth = draft.max_depth()});
  seen_.insert(seen_.end(), sampling.seen.begin(), sampling.seen.end());
  biases_.insert(biases_.end(), sampling.biases.begin(), sampling.biases.end());
  AddMasks(sampling, node_masks, round);
  for (int node = 0; node <= draft.size(); ++node) {
    AddNode(draft, node, std::find(ends.begin(), ends.end(), node) != ends.end(), round);
  }
  round.scratch = scratch_bytes_;
  scratch_bytes_ += RuleScratch::Bytes(std::max(round.max_depth, 1), round.max_entries);
}

void RoundBatch::AddMasks(const SamplingState& sampling, std::span<const uint32_t> node_masks,
                          RoundHeader& round) {
  const auto append = [](const auto& from, auto& to, int32_t& first, int32_t& count) {
    first = static_cast<int32_t>(to.size());
    count = static_cast<int32_t>(from.size());
    to.insert(to.end(), from.begin(), from.end());
  };
  if (sampling.suppressed_rows > 0) {
    append(sampling.suppressed, suppressed_, round.first_suppressed, round.suppressed);
    round.suppressed_rows = sampling.suppressed_rows;
  }
  append(node_masks.empty() ? sampling.mask : node_masks, mask_, round.first_mask, round.mask);
  if (!node_masks.empty()) {
    OUTRIDER_CHECK(round.mask % round.nodes == 0);
    round.mask = round.mask_step = round.mask / round.nodes;
  }
  append(sampling.bad_words, bad_words_, round.first_bad_word, round.bad_words);
  append(sampling.bad_tokens, bad_tokens_, round.first_bad_token, round.bad_tokens);
  append(sampling.recent, recent_, round.first_recent, round.recent);
}

void RoundBatch::AddNode(const DraftTree& draft, int node, bool is_end, RoundHeader& round) {
  round_of_.push_back(static_cast<int32_t>(rounds_.size()) - 1);
  tokens_.push_back(draft.token(node));
  parents_.push_back(draft.parent(node));
  depths_.push_back(draft.depth(node));
  const std::span<const int32_t> draws = is_end ? std::span<const int32_t>() : draft.draws(node);
  draws_.insert(draws_.end(), draws.begin(), draws.end());
  draws_begin_.push_back(static_cast<int32_t>(draws_.size()));
  const DraftDistribution& distribution = draft.distribution(node);
  OUTRIDER_CHECK(distribution.ids.size() == distribution.weights.size());
  draft_ids_.insert(draft_ids_.end(), distribution.ids.begin(), distribution.ids.end());
  draft_weights_.insert(draft_weights_.end(), distribution.weights.begin(),
                        distribution.weights.end());
  if (distribution.ids.empty() && !draws.empty()) {  // a point mass
    draft_ids_.push_back(draft.token(draws[0]));
    draft_weights_.push_back(kDraftWeightTotal);
  }
  draft_begin_.push_back(static_cast<int32_t>(draft_ids_.size()));
  round.max_entries = std::max(round.max_entries, static_cast<int32_t>(distribution.ids.size()));
}

RoundArrays RoundBatch::arrays() const {
  return Copy([](const auto& array) { return array.data(); });
}

}  // namespace outrider
