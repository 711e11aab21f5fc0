#include "drafter/propose/draft_forward.h"

#include <cstddef>

namespace outrider {

Status DraftForward::Forward(std::span<const PassShare> shares, ForwardOutput* output) {
  static constexpr int32_t kOnlyRow = 0;
  std::vector<TokenId> draft_tokens;  // spans point into these two
  std::vector<int32_t> last_rows;
  draft_tokens.reserve(static_cast<size_t>(max_tokens_));
  last_rows.reserve(shares.size());
  std::vector<ForwardSequence> batch;
  bool want_hidden = false;
  draws_.Clear();
  for (const PassShare& share : shares) {
    const DraftSession& session = share.mirror().session;
    if (on_device() && share.logit_rows > 0) {
      if (share.guess != nullptr) {
        share.held->ahead.AddRows(*share.guess, &draws_);
      } else {
        session.AddRows(&draws_);
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
                       .logits_to_host = !on_device()});
      continue;
    }
    for (const int32_t node : session.frontier()) {
      draft_tokens.push_back(session.draft().token(node));
      batch.push_back({.sequence = kv.sequence(node),
                       .tokens = {&draft_tokens.back(), 1},
                       .parents = {},
                       .logit_rows = {&kOnlyRow, 1},
                       .logits_to_host = !on_device()});
    }
  }
  return model_->Forward(batch, want_hidden, output);
}

Result<DraftForward::Pass> DraftForward::Run(std::span<const PassShare> shares) {
  const int64_t bytes_before = model_->bytes_to_host();
  ForwardOutput output;
  OUTRIDER_TRY(Forward(shares, &output));
  std::span<const PickedRow> picked;
  if (draws_.rows() > 0) picked = model_->Draft(draws_);
  Pass pass{.shares = {},
            .device_rows = draws_.rows(),
            .device_bytes = model_->bytes_to_host() - bytes_before};
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  const auto hidden_size = static_cast<size_t>(model_->config().hidden_size);
  float* logits = output.logits;
  const float* hidden = output.hidden;
  for (const PassShare& share : shares) {
    const auto count = static_cast<size_t>(share.logit_rows);
    ShareRows& of_share = pass.shares.emplace_back();
    if (on_device()) {
      of_share.rows = DraftRows(picked.first(count));
      picked = picked.subspan(count);
    } else if (count > 0) {
      of_share.rows = DraftRows(std::span(logits, count * vocab));
      logits += count * vocab;
    }
    if (hidden != nullptr) {
      of_share.states = {hidden, count * hidden_size};
      hidden += of_share.states.size();
    }
  }
  return pass;
}

Result<DraftForward::Chains> DraftForward::RunChains(std::span<const PassShare> shares,
                                                     int depths) {
  const int64_t bytes_before = model_->bytes_to_host();
  std::vector<DraftChain> chains;
  std::vector<TokenId> draft_tokens;
  draft_tokens.reserve(shares.size());  // spans point into it
  draws_.Clear();
  for (const PassShare& share : shares) {
    const DraftSession& session = share.mirror().session;
    std::span<const TokenId> tokens = session.Missing();
    if (tokens.empty()) {
      draft_tokens.push_back(session.draft().token(session.frontier()[0]));
      tokens = {&draft_tokens.back(), 1};
    }
    chains.push_back({share.mirror().kv.sequence(session.frontier()[0]), tokens});
    session.AddChain(depths, &draws_);
  }
  Chains result;
  OUTRIDER_TRY(model_->DraftChains(chains, depths, draws_, &result.rows));
  result.device_bytes = model_->bytes_to_host() - bytes_before;
  return result;
}

}  // namespace outrider
