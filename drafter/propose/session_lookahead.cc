#include "drafter/propose/session_lookahead.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace outrider {
namespace {

constexpr size_t kMaxLeaves = 4;
// Tokens guessed after a fully accepted draft of a single sequence, and of several.
constexpr int kNextOfChain = 3;
constexpr int kNextOfTree = 2;

}  // namespace

int SessionLookahead::Guess::wants() const {
  if (failed) return 0;
  if (mirror == nullptr) return 1;
  const DraftSession& session = mirror->session;
  if (!session.Missing().empty()) return static_cast<int>(session.Missing().size());
  return next.has_value() ? static_cast<int>(session.frontier().size()) : 0;
}

int SessionLookahead::Guess::logit_rows(int tokens) const {
  const auto missing = static_cast<int>(mirror->session.Missing().size());
  if (missing == 0) return tokens;
  return tokens == missing ? 1 : 0;
}

bool SessionLookahead::Guess::is_drafted() const {
  if (mirror == nullptr || !next.has_value()) return false;
  return !mirror->session.drafting() && mirror->session.has_chunk();
}

SessionLookahead::SessionLookahead(const Mirror* now, Model* model, PageBudget* budget, int tokens)
    : now_(now), model_(model), pages_(budget), tokens_left_(tokens) {
  std::vector<int32_t> leaves = now->session.Leaves();
  leaves.resize(std::min(leaves.size(), kMaxLeaves));
  for (const int32_t leaf : leaves) guesses_.push_back({.node = leaf, .next = std::nullopt});
  for (const RoundEnd& stop : now->session.LikelyStops()) {
    if (!now->session.IsEndOfSequence(stop.next))
      guesses_.push_back({.node = stop.node, .next = stop.next});
  }
}

void SessionLookahead::Start(Guess& guess) {
  guess.failed = true;
  std::array<TokenId, 1> next{};
  if (guess.next.has_value()) next[0] = *guess.next;
  int fed = 0;
  Result<DraftSession> session =
      now_->session.Assume(guess.node, std::span(next).first(guess.next.has_value() ? 1 : 0), &fed);
  if (!session.ok() || (guess.next.has_value() && !session->drafting())) return;
  const DraftKv& from = guess.stem == nullptr ? now_->kv : guess.stem->mirror->kv;
  // The stem has fed the node itself.
  if (guess.stem != nullptr) session->MarkFed(1);
  const Result<SequenceId> trunk =
      from.Fork(guess.stem == nullptr ? fed : DraftTree::kRoot, session->kv_length());
  if (!trunk.ok()) return;
  const int length = session->length();
  const DraftShape shape = guess.next.has_value() ? session->shape() : DraftShape{};
  auto mirror = std::make_unique<Mirror>(*std::move(session), model_, pages_, *trunk);
  if (!mirror->kv.Secure(length, shape).ok()) return;
  guess.mirror = std::move(mirror);
  guess.failed = false;
}

SessionLookahead::Guess* SessionLookahead::Next(const Guess* last, int rows) {
  bool is_past_last = last == nullptr;
  for (Guess& guess : guesses_) {
    if (!is_past_last) {
      is_past_last = &guess == last;
      continue;
    }
    if (guess.wants() == 0) continue;
    if (guess.mirror == nullptr) Start(guess);
    const int wants = guess.wants();
    if (wants == 0 || wants > std::min(rows, tokens_left_)) continue;
    tokens_left_ -= wants;
    return &guess;
  }
  return nullptr;
}

int SessionLookahead::next_tokens() const {
  return now_->session.draft().is_chain() ? kNextOfChain : kNextOfTree;
}

void SessionLookahead::AddRows(const Guess& guess, PickBatch* batch) const {
  if (guess.next.has_value()) {
    guess.mirror->session.AddRows(batch);
  } else {
    guess.mirror->session.AddLikelyNext(next_tokens(), batch);
  }
}

int SessionLookahead::Advance(Guess* guess, int tokens, std::span<const PickedRow> rows,
                              std::span<const float> accepted, std::span<const float> states) {
  DraftSession& session = guess->mirror->session;
  if (!session.Missing().empty()) session.MarkFed(tokens);
  if (rows.empty()) return 0;
  if (guess->next.has_value()) {
    const int before = session.draft().size();
    guess->mirror->DrawDepth(rows, accepted, states);
    return session.draft().size() - before;
  }
  const auto first_stop = std::find_if(guesses_.begin(), guesses_.end(), [](const Guess& g) {
    return g.next.has_value() && g.stem == nullptr;
  });
  // The most likely token after a leaf is more likely than an end before it; the others are not.
  auto place = first_stop;
  for (const TokenId next : session.LikelyNext(next_tokens(), rows[0])) {
    if (session.IsEndOfSequence(next)) continue;
    guesses_.insert(place, {.node = guess->node, .next = next, .stem = guess});
    place = guesses_.end();
  }
  return 0;
}

std::optional<DraftPart> SessionLookahead::TakeEarly(Guess* guess) {
  if (!guess->is_drafted() || guess->is_sent || sent_ == kMaxEarlyDrafts) return std::nullopt;
  guess->is_sent = true;
  ++sent_;
  const DraftSession& session = guess->mirror->session;
  return DraftPart{
      .round = session.round(),
      .chunk = session.PeekChunk(),
      .early = RoundEnd{.node = guess->node, .next = session.ToVerifier(*guess->next)}};
}

void SessionLookahead::DropUnsent() {
  guesses_.remove_if([](const Guess& guess) { return !guess.is_sent; });
}

void SessionLookahead::DropPages() {
  DropUnsent();
  for (Guess& guess : guesses_) {
    guess.failed = true;
    guess.mirror.reset();
  }
}

SessionLookahead::Hit SessionLookahead::TakeMatch(const SessionVerdict& verdict) {
  Hit hit;
  if (begun() && verdict.round == now_->session.round() && verdict.next.size() == 1) {
    for (Guess& guess : guesses_) {
      if (guess.node != verdict.node || !guess.next.has_value() ||
          now_->session.ToVerifier(*guess.next) != verdict.next[0]) {
        continue;
      }
      hit = {.mirror = std::move(guess.mirror),
             .is_sent = guess.is_sent && now_->session.IsRepeatedBy(verdict.plan)};
      break;
    }
  }
  guesses_.clear();
  now_ = nullptr;
  if (hit.mirror == nullptr) return hit;
  const bool is_begun = hit.mirror->session.depths_drawn() > 0;
  if (!is_begun || !hit.mirror->Adopt(verdict.plan)) return {};
  return hit;
}

}  // namespace outrider
