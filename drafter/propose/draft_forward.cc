#include "drafter/propose/draft_forward.h"

#include <cstddef>

namespace outrider {

GraphCounts DraftForward::graph_counts() const {
  return on_device() ? model_->device()->graph_counts() : GraphCounts();
}

int64_t DraftForward::bytes_to_host() const {
  return on_device() ? model_->device()->bytes_to_host() : 0;
}

Status DraftForward::Forward(std::span<const PassShare> shares, ForwardOutput* output) {
  static constexpr int32_t kOnlyRow = 0;
  std::vector<TokenId> draft_tokens;  // spans point into these two
  std::vector<int32_t> last_rows;
  draft_tokens.reserve(static_cast<size_t>(max_tokens_));
  last_rows.reserve(shares.size());
  std::vector<ForwardSequence> batch;
  bool want_hidden = false;
  picks_.Clear();
  for (const PassShare& share : shares) {
    const DraftSession& session = share.mirror().session;
    if (share.logit_rows > 0) {
      if (share.guess != nullptr) {
        share.held->ahead.AddRows(*share.guess, &picks_);
      } else {
        session.AddRows(&picks_);
      }
    }
    const DraftKv& kv = share.mirror().kv;
    want_hidden = want_hidden || session.by_head() || share.recorded();
    if (!session.Missing().empty()) {
      last_rows.push_back(share.tokens - 1);
      batch.push_back({.sequence = kv.sequence(DraftTree::kRoot),
                       .tokens = session.Missing().first(static_cast<size_t>(share.tokens)),
                       .parents = {},
                       .logit_rows = {&last_rows.back(), static_cast<size_t>(share.logit_rows)},
                       .logits_to_host = false});
      continue;
    }
    for (const int32_t node : session.frontier()) {
      draft_tokens.push_back(session.draft().token(node));
      batch.push_back({.sequence = kv.sequence(node),
                       .tokens = {&draft_tokens.back(), 1},
                       .parents = {},
                       .logit_rows = {&kOnlyRow, 1},
                       .logits_to_host = false});
    }
  }
  return model_->Forward(batch, want_hidden, output);
}

Result<DraftForward::Pass> DraftForward::Run(std::span<const PassShare> shares) {
  const int64_t bytes_before = bytes_to_host();
  ForwardOutput output;
  OUTRIDER_TRY(Forward(shares, &output));
  std::span<const PickedRow> picked;
  if (!picks_.empty()) picked = model_->Draft(picks_);
  Pass pass{.shares = {},
            .device_rows = on_device() ? picks_.size() : 0,
            .device_bytes = bytes_to_host() - bytes_before};
  const auto hidden_size = static_cast<size_t>(model_->config().hidden_size);
  const float* hidden = output.hidden;
  for (const PassShare& share : shares) {
    const auto count = static_cast<size_t>(share.logit_rows);
    ShareRows& share_rows = pass.shares.emplace_back();
    share_rows.rows = picked.first(count);
    picked = picked.subspan(count);
    if (hidden != nullptr) {
      share_rows.states = {hidden, count * hidden_size};
      hidden += share_rows.states.size();
    }
  }
  return pass;
}

Result<DraftForward::Chains> DraftForward::RunChains(std::span<const PassShare> shares,
                                                     int depths) {
  const int64_t bytes_before = bytes_to_host();
  std::vector<DraftChain> chains;
  std::vector<TokenId> draft_tokens;
  draft_tokens.reserve(shares.size());  // spans point into it
  picks_.Clear();
  for (const PassShare& share : shares) {
    const DraftSession& session = share.mirror().session;
    std::span<const TokenId> tokens = session.Missing();
    if (tokens.empty()) {
      draft_tokens.push_back(session.draft().token(session.frontier()[0]));
      tokens = {&draft_tokens.back(), 1};
    }
    chains.push_back({share.mirror().kv.sequence(session.frontier()[0]), tokens});
    session.AddChain(depths, &picks_);
  }
  Chains result;
  OUTRIDER_TRY(model_->device()->DraftChains(chains, depths, picks_, &result.rows));
  result.device_bytes = bytes_to_host() - bytes_before;
  return result;
}

}  // namespace outrider
