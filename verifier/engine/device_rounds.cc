#include "verifier/engine/device_rounds.h"

#include <limits>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace outrider {
namespace {

VerifyRule RuleOf(const Session& session) {
  if (session.request.sampling.greedy()) return VerifyRule::kArgmax;
  const Rule rule = session.speculation.rule;
  if (rule == Rule::kGumbel) return VerifyRule::kRace;
  if (session.drafting.draft().empty()) return VerifyRule::kPlain;
  switch (rule) {
    case Rule::kToken: return VerifyRule::kToken;
    case Rule::kBlock: return VerifyRule::kBlock;
    case Rule::kSpecTr: return VerifyRule::kSpecTr;
    case Rule::kMultiRound: return VerifyRule::kMultiRound;
    case Rule::kMultiPathBlock: return VerifyRule::kMultiPathBlock;
    case Rule::kGreedyBlock:
    case Rule::kGumbel: break;
  }
  OUTRIDER_CHECK(false);
  return VerifyRule::kPlain;
}

// A suppressed token is one with a bias of -infinity.
std::vector<TokenBias> BiasesAndSuppressed(const Warper& warper) {
  if (warper.Suppressed().empty()) return BiasesOf(warper.params());
  SamplingParams params = warper.params();
  for (const TokenId token : warper.Suppressed()) {
    params.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
  return BiasesOf(params);
}

}  // namespace

bool DeviceRounds::Takes(const Session& session) const {
  return model_->verifies() && !session.request.logprobs.has_value() &&
         !session.warper->SuppressionEndsWithin(session.drafting.draft().max_depth()) &&
         session.speculation.rule != Rule::kGreedyBlock;
}

void DeviceRounds::Begin() {
  batch_.Clear();
  verdicts_ = {};
  next_session_ = next_node_ = 0;
}

void DeviceRounds::Add(const Session& session) {
  const SamplingParams& params = session.warper->params();
  batch_.BeginSession({.rule = RuleOf(session),
                       .warp = RowWarpOf(params),
                       .seed = session.seed,
                       .round = session.round,
                       .position = static_cast<uint32_t>(session.tokens.size())},
                      SeenTokensOf(session.warper->Seen()), BiasesAndSuppressed(*session.warper));
  const DraftTree& draft = session.drafting.draft();
  for (int node = 0; node <= draft.size(); ++node) {
    const DraftLaw& law = draft.law(node);
    batch_.AddNode(draft.token(node), draft.parent(node), draft.draws(node), law.ids, law.weights);
  }
}

void DeviceRounds::Run() {
  if (batch_.sessions() > 0) verdicts_ = model_->Verify(batch_, allowed_);
}

DecidedRound DeviceRounds::Next(const Session& session) {
  OUTRIDER_CHECK(next_session_ < verdicts_.verdicts.size());
  const DraftTree& draft = session.drafting.draft();
  const DeviceVerdict& verdict = verdicts_.verdicts[next_session_++];
  const auto nodes = static_cast<size_t>(draft.size()) + 1;
  const auto bytes = verdicts_.acceptance.subspan(next_node_, nodes).subspan(1);
  next_node_ += nodes;
  DecidedRound round{
      .verdict = {.node = verdict.node, .accepted = verdict.accepted, .next = verdict.next},
      .broken_depth = verdict.broken_depth};
  if (round.broken_depth >= 0) return round;
  if (NeedsAcceptance(session)) round.acceptance.assign(bytes.begin(), bytes.end());
  if (IsSampledRound(session) && draft.draws(DraftTree::kRoot).size() > 1) {
    round.first_token = {.kseq = static_cast<double>(verdict.kseq_acceptance),
                         .optimum = static_cast<double>(verdict.optimal_acceptance)};
  }
  return round;
}

}  // namespace outrider
