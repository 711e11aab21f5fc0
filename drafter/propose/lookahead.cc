#include "drafter/propose/lookahead.h"

#include <utility>

namespace outrider {

std::vector<PassShare> Lookahead::Idle() {
  std::vector<PassShare> idle;
  for (auto& [id, connection] : sessions_->connections()) {
    for (auto& [session, held] : connection.sessions) {
      const DraftSession& current = held.mirror->session;
      // Early drafts are whole. When one is sent may not depend on its tokens.
      if (!current.may_be_early() || current.drafting() || current.draft().empty()) continue;
      if (!held.ahead.begun()) {
        held.ahead =
            SessionLookahead(held.mirror.get(), model_, &sessions_->pages(), options_.tokens);
      }
      idle.push_back({.held = &held});
    }
  }
  // The session whose draft was sent first gets its verdict first.
  TakeTurns(idle);
  return idle;
}

std::vector<PassShare> Lookahead::Plan() {
  if (options_.tokens == 0 || !gate_.open()) return {};
  std::vector<PassShare> last = Idle();  // by session, with the last guess taken
  int budget = options_.max_rows;
  std::vector<PassShare> shares;
  while (budget > 0 && !last.empty()) {
    std::vector<PassShare> taken;
    for (PassShare share : last) {
      share.guess = share.held->ahead.Next(share.guess, budget);
      if (share.guess == nullptr) continue;
      share.tokens = share.guess->wants();
      share.logit_rows = share.guess->logit_rows(share.tokens);
      budget -= share.tokens;
      taken.push_back(share);
    }
    shares.insert(shares.end(), taken.begin(), taken.end());
    last = std::move(taken);
  }
  return shares;
}

void Lookahead::OnDraftComplete(HeldSession& held, Time now) {
  if (held.drafted.has_value()) gate_.OnRound(Seconds(now - *held.drafted));
  held.drafted = now;
}

SessionLookahead::Hit Lookahead::TakeMatch(HeldSession& held, const SessionVerdict& verdict) {
  const bool begun = held.ahead.begun();
  SessionLookahead::Hit hit = held.ahead.TakeMatch(verdict);
  // Rounds in between that were not drafted make the time of a round meaningless.
  if (verdict.plan.round != verdict.round + 1) held.drafted.reset();
  if (begun) observers_->Notify(&DraftObserver::OnVerdictAhead, held, hit.mirror != nullptr);
  return hit;
}

}  // namespace outrider
