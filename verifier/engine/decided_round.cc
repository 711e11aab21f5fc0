#include "verifier/engine/decided_round.h"

#include <cstddef>
#include <span>
#include <vector>

#include "common/math/accept.h"
#include "common/math/coins.h"
#include "common/math/softmax.h"

namespace outrider {
namespace {

// The logits rows of one round. Reads each when a rule first asks for it, because rules never see
// most rows of a wide tree.
class HostRows {
 public:
  HostRows(const Session& session, std::span<float> rows, int allowed)
      : session_(session),
        draft_(session.drafting.draft()),
        rows_(rows),
        vocab_(rows.size() / (static_cast<size_t>(draft_.size()) + 1)),
        allowed_(static_cast<size_t>(allowed)),
        is_broken_(static_cast<size_t>(draft_.size()) + 1, false),
        is_processed_(is_broken_.size(), false) {}

  // The logits after `node`.
  std::span<float> Raw(int node) {
    const std::span<float> row = Row(node);
    is_broken_[static_cast<size_t>(node)] = !IsFinite(row.first(allowed_));
    return row;
  }
  // The target distribution after `node`.
  std::span<const float> Target(int node) {
    if (is_processed_[static_cast<size_t>(node)]) return Row(node);
    is_processed_[static_cast<size_t>(node)] = true;
    const std::span<float> row = Raw(node);
    session_.warper->Warp(row, draft_.Path(node));
    return row;
  }
  bool is_processed(int node) const { return is_processed_[static_cast<size_t>(node)]; }

  int vocab() const { return static_cast<int>(vocab_); }

  // As DecidedRound has it, for a verdict that ends at `node`.
  int BrokenDepth(int node) const {
    int first = -1;
    for (; node >= 0; node = node == DraftTree::kRoot ? -1 : draft_.parent(node)) {
      if (is_broken_[static_cast<size_t>(node)]) first = node;
    }
    return first < 0 ? -1 : draft_.depth(first);
  }

 private:
  std::span<float> Row(int node) {
    return rows_.subspan(static_cast<size_t>(node) * vocab_, vocab_);
  }

  const Session& session_;
  const DraftTree& draft_;
  const std::span<float> rows_;
  const size_t vocab_, allowed_;
  std::vector<bool> is_broken_, is_processed_;
};

std::string AcceptanceOf(const DraftTree& draft, HostRows& rows) {
  std::string acceptance;
  for (int node = 1; node <= draft.size() && rows.is_processed(draft.parent(node)); ++node) {
    const int parent = draft.parent(node);
    const TokenId token = draft.token(node);
    const auto target = static_cast<double>(rows.Target(parent)[static_cast<size_t>(token)]);
    acceptance += static_cast<char>(AcceptanceByte(target, Probability(draft.law(parent), token)));
  }
  return acceptance;
}

DecidedRound DecideRows(const Session& session, HostRows& rows) {
  const DraftTree& draft = session.drafting.draft();
  const auto position = static_cast<uint32_t>(session.tokens.size());
  if (session.request.sampling.greedy()) {
    return {.verdict = VerifyMatch(draft, [&](int node) {
              return session.warper->Argmax(rows.Raw(node), draft.Path(node));
            })};
  }
  if (session.speculation.rule == Rule::kGumbel) {
    return {.verdict = VerifyMatch(draft, [&](int node) {
              const auto depth = static_cast<uint32_t>(draft.depth(node));
              return session.warper->Race(rows.Raw(node), draft.Path(node), 1, session.seed,
                                          position + depth)[0];
            })};
  }
  if (draft.empty()) {
    const double coin = Coin(session.seed, session.round, 0, Purpose::kPlainToken);
    return {.verdict = {.node = DraftTree::kRoot,
                        .accepted = 0,
                        .next = SampleRow(rows.Target(DraftTree::kRoot), coin)}};
  }
  const TargetRowFn target = [&rows](int node) { return rows.Target(node); };
  DecidedRound round{.verdict = VerifyRound(session.speculation.rule, draft, target, rows.vocab(),
                                            session.seed, session.round, position)};
  if (NeedsAcceptance(session)) round.acceptance = AcceptanceOf(draft, rows);
  if (draft.draws(DraftTree::kRoot).size() > 1) {
    round.first_token = AcceptanceOfFirstToken(draft, rows.Target(DraftTree::kRoot));
  }
  return round;
}

}  // namespace

bool NeedsAcceptance(const Session& session) {
  // A seed that comes again must not meet a head that has learned from its coins.
  return session.drafting.plan().stop.kind == StopRule::Kind::kHead &&
         !session.drafting.is_local() && IsSampledRound(session) &&
         !DependsOnDrafts(session.request, session.speculation);
}

bool IsSampledRound(const Session& session) {
  return !session.request.sampling.greedy() && session.speculation.rule != Rule::kGumbel &&
         !session.drafting.draft().empty();
}

DecidedRound DecideOnHost(const Session& session, std::span<float> rows, int allowed) {
  HostRows host_rows(session, rows, allowed);
  DecidedRound round = DecideRows(session, host_rows);
  round.broken_depth = host_rows.BrokenDepth(round.verdict.node);
  return round;
}

}  // namespace outrider
