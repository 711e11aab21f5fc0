#include "verifier/engine/round_spec.h"

namespace outrider {
namespace {

// Whether to tell the drafter how likely its tokens were to be accepted. A seed that is used again
// must not meet a head that has learned from its random numbers.
bool WantsAcceptance(const Session& session) {
  return session.drafting.plan().stop.kind == StopRule::Kind::kHead &&
         !session.drafting.is_local() && IsSampledRound(session) &&
         !DependsOnDrafts(session.request, session.speculation);
}

}  // namespace

RoundSpec RoundSpecOf(const Session& session) {
  return {.rule = session.speculation.rule,
          .seed = session.seed,
          .round = session.round,
          .position = static_cast<uint32_t>(session.tokens.size()),
          .wants_acceptance = WantsAcceptance(session)};
}

bool IsSampledRound(const Session& session) {
  return !session.request.sampling.greedy() && session.speculation.rule != Rule::kGumbel &&
         !session.drafting.draft().empty();
}

}  // namespace outrider
