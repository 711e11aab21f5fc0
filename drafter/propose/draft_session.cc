#include "drafter/propose/draft_session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/spec/coins.h"

namespace outrider {
namespace {

Status CheckTokens(std::span<const TokenId> tokens, int vocab_size) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocab_size) {
      return InvalidArgument("token id " + std::to_string(token) +
                             " is outside of the vocabulary (" + std::to_string(vocab_size) + ")");
    }
  }
  return Status();
}

Status CheckContext(size_t tokens, int max_context) {
  if (tokens <= static_cast<size_t>(max_context)) return Status();
  return InvalidArgument(std::to_string(tokens) + " tokens, the drafter's context holds " +
                         std::to_string(max_context));
}

}  // namespace

Result<DraftSession> DraftSession::Create(const OpenEvent& open, const DraftBounds* bounds) {
  if (bounds->allowed < 1) return InvalidArgument("the verifier allows no token to be drafted");
  if (open.tokens.empty()) return InvalidArgument("a session without tokens");
  if (open.prompt_tokens < 0 || static_cast<size_t>(open.prompt_tokens) > open.tokens.size()) {
    return InvalidArgument(std::to_string(open.prompt_tokens) + " prompt tokens of " +
                           std::to_string(open.tokens.size()));
  }
  OUTRIDER_TRY(CheckContext(open.tokens.size(), bounds->max_context));
  OUTRIDER_TRY(CheckTokens(open.tokens, bounds->vocab_size));
  OUTRIDER_TRY(Validate(open.sampling, bounds->vocab_size));
  return DraftSession(open, bounds);
}

DraftSession::DraftSession(const OpenEvent& open, const DraftBounds* bounds)
    : bounds_(bounds),
      seed_(open.seed),
      warper_(open.sampling, bounds->vocab_size, bounds->allowed),
      tokens_(open.tokens),
      committed_(static_cast<int>(open.tokens.size())) {
  const std::span<const TokenId> tokens = tokens_;
  const auto prompt = static_cast<size_t>(open.prompt_tokens);
  warper_.ObservePrompt(tokens.first(prompt));
  for (const TokenId token : tokens.subspan(prompt)) warper_.ObserveOutput(token);
  Begin(open.plan);
}

void DraftSession::Begin(const DraftPlan& plan) {
  plan_ = plan;
  plan_.length = std::clamp(plan.length, 0, bounds_->max_draft_length);
  drafting_ = plan_.length > 0;
  laws_.clear();
}

int DraftSession::planned_length() const {
  // The last draft token is never fed.
  return std::min(committed_ + std::max(plan_.length - 1, 0), bounds_->max_context);
}

std::span<const TokenId> DraftSession::Missing() const {
  return std::span<const TokenId>(tokens_).subspan(static_cast<size_t>(kv_length_));
}

void DraftSession::Fed(int count) {
  kv_length_ += count;
  OUTRIDER_CHECK(kv_length_ <= length());
}

bool DraftSession::DraftNext(std::span<float> logits) {
  OUTRIDER_CHECK(drafting_ && kv_length_ == length());
  const std::span<const TokenId> pending =
      std::span<const TokenId>(tokens_).subspan(static_cast<size_t>(committed_));
  TokenId token;
  if (warper_.params().greedy()) {
    token = warper_.Argmax(logits, pending);
  } else {
    warper_.Warp(logits, pending);
    DraftLaw law = MakeDraftLaw(logits, bounds_->law_limits);
    const auto depth = static_cast<uint32_t>(pending.size());
    token = SampleDraftLaw(law, Coin(seed_, plan_.round, depth, Purpose::kDraftToken));
    laws_.push_back(std::move(law));
  }
  tokens_.push_back(token);
  const std::vector<TokenId>& eos = bounds_->eos_token_ids;
  const bool ended = std::find(eos.begin(), eos.end(), token) != eos.end();
  drafting_ = !ended && length() - committed_ < plan_.length && length() <= bounds_->max_context;
  return !drafting_;
}

DraftPath DraftSession::TakeDraft() {
  OUTRIDER_CHECK(!drafting_);
  DraftPath path;
  path.tokens.assign(tokens_.begin() + committed_, tokens_.end());
  path.laws = std::exchange(laws_, {});
  return path;
}

Status DraftSession::Apply(const SessionVerdict& verdict) {
  if (verdict.round != plan_.round) {
    return FailedPrecondition("a verdict on round " + std::to_string(verdict.round) +
                              ", the session is at " + std::to_string(plan_.round));
  }
  if (verdict.plan.round <= plan_.round) {
    return InvalidArgument("round " + std::to_string(verdict.plan.round) +
                           " planned behind round " + std::to_string(plan_.round));
  }
  // A draft that was not sent cannot have been accepted.
  const int offered = drafting_ ? 0 : length() - committed_;
  if (verdict.accepted < 0 || verdict.accepted > offered) {
    return InvalidArgument(std::to_string(verdict.accepted) + " tokens accepted of " +
                           std::to_string(offered));
  }
  OUTRIDER_TRY(CheckTokens(verdict.next, bounds_->vocab_size));
  const int kept = committed_ + verdict.accepted;
  OUTRIDER_TRY(CheckContext(static_cast<size_t>(kept) + verdict.next.size(), bounds_->max_context));

  const int observed = committed_;
  tokens_.resize(static_cast<size_t>(kept));
  tokens_.insert(tokens_.end(), verdict.next.begin(), verdict.next.end());
  committed_ = length();
  for (int i = observed; i < committed_; ++i)
    warper_.ObserveOutput(tokens_[static_cast<size_t>(i)]);
  // The last token is fed anew in any case: its logits are the next draft's first law.
  kv_length_ = std::min({kv_length_, kept, committed_ - 1});
  Begin(verdict.plan);
  return Status();
}

}  // namespace outrider
