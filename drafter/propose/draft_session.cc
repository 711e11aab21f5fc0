#include "drafter/propose/draft_session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

Status CheckIds(std::span<const TokenId> tokens, int vocab_size) {
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

// The part of `planned` that can be drafted after `length` tokens. Fewer depths than planned make a
// shorter draft; fewer draft tokens would change the distribution, so a plan with too many is
// refused.
Result<DraftShape> Fit(const DraftShape& planned, size_t length, const DraftBounds& bounds) {
  // The last depth is never fed.
  const int room = bounds.max_context - static_cast<int>(length) + 1;
  DraftShape shape = planned;
  shape.length = std::clamp(planned.length, 0, std::min(bounds.max_draft_length, room));
  for (const int draws : shape.branching) {
    if (draws < 1) return InvalidArgument("a plan of " + std::to_string(draws) + " draws a node");
  }
  if (shape.total_draws() > bounds.max_draft_tokens) {
    return InvalidArgument("a plan of " + std::to_string(shape.total_draws()) +
                           " draws, the drafter makes " + std::to_string(bounds.max_draft_tokens));
  }
  if (shape.length > 0 && shape.leaves() > bounds.max_sequences) {
    return InvalidArgument("a plan of " + std::to_string(shape.leaves()) +
                           " sequences, the drafter runs " + std::to_string(bounds.max_sequences));
  }
  return shape;
}

// The text continues with `tokens`. Drops the grammar if there is no share left for reading them.
Status Follow(std::span<const TokenId> tokens, GrammarShare& share,
              std::optional<grammar::DraftGrammar>* grammar) {
  for (const TokenId token : tokens) {
    if (!share.CanRead()) {
      grammar->reset();
      return Status();
    }
    if (share.SpendOnReading([&](auto& s) { return (*grammar)->Advance(token, s); })) continue;
    return FailedPrecondition("token " + std::to_string(token) +
                              " is not one that the session's grammar goes on with here");
  }
  return Status();
}

// Ids from here on do not exist at the verifier.
int VerifierVocabulary(const DraftBounds& bounds) {
  return bounds.vocabulary == nullptr ? bounds.vocab_size : bounds.vocabulary->verifier_size();
}

// Mask of what the session may sample, for its grammar; empty: everything.
std::vector<uint32_t> RowMask(const SamplingParams& sampling, const DraftBounds& bounds) {
  std::vector<uint32_t> mask = MaskOf(sampling, bounds.vocab_size);
  if (bounds.vocabulary == nullptr) return mask;
  if (mask.empty()) return bounds.shared_tokens;
  for (size_t i = 0; i < mask.size(); ++i) mask[i] &= bounds.shared_tokens[i];
  return mask;
}

// `planned`, or the full length if this drafter has no head.
StopRule InForce(StopRule planned, const HeadState* head) {
  if (planned.kind != StopRule::Kind::kHead) return planned;
  if (head == nullptr) return StopRule{};
  if (planned.threshold == 0.f) planned.threshold = head->threshold();
  return planned;
}

}  // namespace

Status DraftSession::CheckTokens(const SessionOpening& open, const DraftBounds& bounds) {
  if (open.tokens.empty()) return InvalidArgument("a session without tokens");
  if (open.prompt_tokens < 0 || static_cast<size_t>(open.prompt_tokens) > open.tokens.size()) {
    return InvalidArgument(std::to_string(open.prompt_tokens) + " prompt tokens of " +
                           std::to_string(open.tokens.size()));
  }
  OUTRIDER_TRY(CheckIds(open.tokens, VerifierVocabulary(bounds)));
  const VocabularyMap* const vocabulary = bounds.vocabulary.get();
  // Before they are spelled out: a token can become a thousand.
  return CheckContext(vocabulary == nullptr ? open.tokens.size() : vocabulary->OwnSize(open.tokens),
                      bounds.max_context);
}

Result<DraftSession> DraftSession::Create(const SessionOpening& verifiers,
                                          const DraftBounds* bounds,
                                          std::shared_ptr<grammar::GrammarMasks> masks) {
  if (bounds->allowed < 1) return InvalidArgument("the verifier allows no token to be drafted");
  OUTRIDER_TRY(CheckTokens(verifiers, *bounds));
  SessionOpening translated;
  if (bounds->vocabulary != nullptr) {
    OUTRIDER_ASSIGN(translated, bounds->vocabulary->ToOwn(verifiers));
  }
  const SessionOpening& open = bounds->vocabulary == nullptr ? verifiers : translated;
  OUTRIDER_TRY(Validate(open.sampling, bounds->vocab_size));
  OUTRIDER_ASSIGN(const DraftShape shape, Fit(open.plan.shape, open.tokens.size(), *bounds));
  std::optional<grammar::DraftGrammar> grammar;
  if (masks != nullptr) {
    grammar.emplace(std::move(masks), RowMask(open.sampling, *bounds));
    const auto output = std::span(open.tokens).subspan(static_cast<size_t>(open.prompt_tokens));
    OUTRIDER_TRY(Follow(output, *bounds->grammar_share, &grammar));
  }
  return DraftSession(open, shape, bounds, std::move(grammar),
                      static_cast<int>(verifiers.tokens.size()));
}

DraftSession::DraftSession(const SessionOpening& open, const DraftShape& shape,
                           const DraftBounds* bounds, std::optional<grammar::DraftGrammar> grammar,
                           int position)
    : bounds_(bounds),
      seed_(open.seed),
      kind_(open.kind),
      sampling_(open.sampling, bounds->vocab_size, bounds->allowed),
      grammar_(std::move(grammar)),
      tokens_(open.tokens),
      position_(position) {
  if (bounds->vocabulary != nullptr) sampling_.Restrict(bounds->shared_tokens);
  const std::span<const TokenId> tokens = tokens_;
  const auto prompt = static_cast<size_t>(open.prompt_tokens);
  sampling_.ObservePrompt(tokens.first(prompt));
  for (const TokenId token : tokens.subspan(prompt)) sampling_.ObserveOutput(token);
  Begin(open.plan, shape);
}

void DraftSession::Begin(const DraftPlan& plan, const DraftShape& shape) {
  round_ = plan.round;
  planned_ = plan.shape;
  planned_stop_ = plan.stop;
  shape_ = shape;
  const StopRule stop = InForce(plan.stop, bounds_->head);
  stop_ = stop.kind;
  builder_ = DraftTreeBuilder({.kind = kind_,
                               .shape = shape,
                               .stop = stop,
                               .seed = seed_,
                               .round = round_,
                               .position = position_,
                               .distribution_limits = bounds_->distribution_limits,
                               .vocabulary = bounds_->vocabulary.get()});
  sent_nodes_ = 0;
}

std::span<const TokenId> DraftSession::Missing() const {
  return std::span<const TokenId>(tokens_).subspan(static_cast<size_t>(kv_length_));
}

void DraftSession::MarkFed(int count) {
  kv_length_ += count;
  OUTRIDER_CHECK(kv_length_ <= length());
}

void DraftSession::DrawDepth(std::span<const PickedRow> rows, std::span<const float> accepted) {
  OUTRIDER_CHECK(kv_length_ == length());
  builder_.DrawDepth(rows, accepted);
}

void DraftSession::AddRows(PickBatch* batch) const {
  const SamplingState state = sampling_.state();
  batch->BeginSequence(state);
  const PickSpec spec = builder_.RowSpec(state.sampling, sampling_.allowed());
  for (const int32_t node : frontier()) {
    batch->AddRow(spec, draft().Path(node), MaskOfRow(node));
  }
}

void DraftSession::AddChain(int depths, PickBatch* batch) const {
  const SamplingState state = sampling_.state();
  batch->BeginSequence(state);
  batch->AddChain(builder_.RowSpec(state.sampling, sampling_.allowed()),
                  draft().Path(frontier()[0]), builder_.ChainSpec(depths));
}

DraftChunk DraftSession::TakeChunk() {
  sent_nodes_ = draft().size();
  DraftChunk chunk = builder_.TakeChunk();
  if (bounds_->vocabulary != nullptr) bounds_->vocabulary->ToVerifier(&chunk);
  return chunk;
}

DraftChunk DraftSession::PeekChunk() const {
  DraftChunk chunk = builder_.PeekChunk();
  if (bounds_->vocabulary != nullptr) bounds_->vocabulary->ToVerifier(&chunk);
  return chunk;
}

std::vector<int32_t> DraftSession::Leaves() const {
  std::vector<int32_t> leaves;
  for (int node = 1; node <= draft().size(); ++node) {
    if (draft().draws(node).empty() && !IsEndOfSequence(draft().token(node)))
      leaves.push_back(node);
  }
  return leaves;
}

void DraftSession::AddLikelyNext(int count, PickBatch* batch) const {
  const SamplingState state = sampling_.state();
  batch->BeginSequence(state);
  PickSpec spec{.pick = kind_ == DraftKind::kRace ? RowPick::kRace : RowPick::kTop,
                .count = count,
                .allowed = sampling_.allowed(),
                .sampling = state.sampling,
                .seed = seed_,
                .position = static_cast<uint32_t>(position_)};
  if (kind_ == DraftKind::kRace && bounds_->vocabulary != nullptr) {
    spec.pick = RowPick::kDistribution;
    spec.count = kRaceEntries;
  }
  batch->AddRow(spec, {}, MaskOfRow(DraftTree::kRoot));
}

std::vector<TokenId> DraftSession::LikelyNext(int count, const PickedRow& row) const {
  if (bounds_->vocabulary == nullptr) return TokensOf(row);
  // Masks may leave no token.
  if (row.entries.empty() || bounds_->vocabulary->ToVerifier(row.entries[0].id) < 0) return {};
  if (kind_ != DraftKind::kRace) return TokensOf(row);
  return bounds_->vocabulary->RaceWinners(row.entries, count, seed_,
                                          static_cast<uint32_t>(position_));
}

TokenId DraftSession::ToVerifier(TokenId own) const {
  return bounds_->vocabulary == nullptr ? own : bounds_->vocabulary->ToVerifier(own);
}

std::span<const uint32_t> DraftSession::MaskOfRow(int node) const {
  // Without a mask the draft is still lossless.
  if (!grammar_.has_value() || !bounds_->grammar_share->CanMask()) return {};
  row_mask_.resize(grammar_->mask_words());
  const bool is_known = bounds_->grammar_share->SpendOnMask(
      [&](auto& scratch) { return grammar_->Fill(draft(), node, scratch, row_mask_).ok(); });
  return is_known ? std::span<const uint32_t>(row_mask_) : std::span<const uint32_t>();
}

bool DraftSession::IsEndOfSequence(TokenId token) const {
  const std::vector<TokenId>& eos = bounds_->eos_token_ids;
  return std::find(eos.begin(), eos.end(), token) != eos.end();
}

Result<DraftSession> DraftSession::Assume(int node, std::span<const TokenId> next, int* fed) const {
  DraftSession assumed = *this;
  std::vector<TokenId> verifiers;
  for (const TokenId token : next) verifiers.push_back(ToVerifier(token));
  OUTRIDER_ASSIGN(
      *fed,
      assumed.Apply({.session = 0,
                     .round = round_,
                     .node = node,
                     .next = std::move(verifiers),
                     .plan = {.round = round_ + 1, .shape = planned_, .stop = planned_stop_}}));
  return assumed;
}

bool DraftSession::Adopt(const DraftPlan& plan) {
  if (plan.round != round_ || plan.stop != planned_stop_) return false;
  const Result<DraftShape> shape = Fit(plan.shape, tokens_.size(), *bounds_);
  if (!shape.ok() || shape->length == 0) return false;
  for (int depth = 0; depth < std::min(shape->length, builder_.depths()); ++depth) {
    if (shape->draws(depth) != shape_.draws(depth)) return false;
  }
  planned_ = plan.shape;
  shape_ = *shape;
  builder_.SetShape(shape_);
  return !draft().empty() || drafting();  // else its rows were broken
}

Result<int> DraftSession::Apply(const SessionVerdict& verdict) {
  if (verdict.round != round_) {
    return FailedPrecondition("a verdict on round " + std::to_string(verdict.round) +
                              ", the session is at " + std::to_string(round_));
  }
  if (verdict.plan.round <= round_) {
    return InvalidArgument("round " + std::to_string(verdict.plan.round) + " planned after round " +
                           std::to_string(round_));
  }
  // What was not sent cannot have been accepted.
  if (verdict.node < 0 || verdict.node > sent_nodes_) {
    return InvalidArgument("node " + std::to_string(verdict.node) + " accepted of " +
                           std::to_string(sent_nodes_));
  }
  OUTRIDER_TRY(CheckIds(verdict.next, VerifierVocabulary(*bounds_)));
  std::vector<TokenId> added = draft().Path(verdict.node);
  const int positions = static_cast<int>(added.size() + verdict.next.size());
  const VocabularyMap* vocabulary = bounds_->vocabulary.get();
  const size_t committed =
      tokens_.size() + added.size() +
      (vocabulary == nullptr ? verdict.next.size() : vocabulary->OwnSize(verdict.next));
  OUTRIDER_TRY(CheckContext(committed, bounds_->max_context));
  if (vocabulary == nullptr) {
    added.insert(added.end(), verdict.next.begin(), verdict.next.end());
  } else {
    vocabulary->AppendOwn(verdict.next, &added);
  }
  OUTRIDER_ASSIGN(const DraftShape shape, Fit(verdict.plan.shape, committed, *bounds_));
  std::optional<grammar::DraftGrammar> grammar = grammar_;
  if (grammar.has_value()) OUTRIDER_TRY(Follow(added, *bounds_->grammar_share, &grammar));

  // A node was fed if the draft continued after it; its parent's draft did in any case.
  const int node = verdict.node;
  const int fed =
      node == DraftTree::kRoot || !draft().draws(node).empty() ? node : draft().parent(node);
  kv_length_ += draft().depth(fed);
  grammar_ = std::move(grammar);
  for (const TokenId token : added) sampling_.ObserveOutput(token);
  tokens_.insert(tokens_.end(), added.begin(), added.end());
  position_ += positions;
  // The last token is fed again in any case, because the next draft's first depth needs its logits.
  kv_length_ = std::min(kv_length_, length() - 1);
  Begin(verdict.plan, shape);
  return fed;
}

}  // namespace outrider
