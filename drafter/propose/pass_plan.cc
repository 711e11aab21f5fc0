#include "drafter/propose/pass_plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace outrider {
namespace {

bool HasOlderPlan(const PassShare& a, const PassShare& b) {
  return a.held->plan_order < b.held->plan_order;
}

bool CatchesUp(const PassShare& share) {
  return share.mirror().session.Missing().size() <= kCatchUpTokens;
}

// The drafting sessions in the order in which they are served.
std::vector<PassShare> Waiting(DraftSessions& sessions) {
  std::vector<PassShare> waiting;
  for (auto& [id, connection] : sessions.connections()) {
    for (auto& [session, held] : connection.sessions) {
      if (held.mirror->session.drafting()) waiting.push_back({.held = &held});
    }
  }
  TakeTurns(waiting);
  const auto oldest = std::min_element(waiting.begin(), waiting.end(), HasOlderPlan);
  if (oldest != waiting.end()) {
    std::rotate(waiting.begin(), oldest, oldest + 1);
    std::stable_partition(waiting.begin() + 1, waiting.end(), CatchesUp);
  }
  return waiting;
}

}  // namespace

void TakeTurns(std::vector<PassShare>& shares) {
  std::sort(shares.begin(), shares.end(), HasOlderPlan);
  std::map<const VerifierConnection*, int> turns;
  std::vector<std::pair<int, PassShare>> by_turn;
  by_turn.reserve(shares.size());
  for (const PassShare& share : shares) {
    by_turn.emplace_back(turns[share.held->connection]++, share);
  }
  std::stable_sort(by_turn.begin(), by_turn.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  shares.clear();
  for (const auto& [turn, share] : by_turn) shares.push_back(share);
}

std::vector<PassShare> PlanPass(DraftSessions& sessions, const PassLimits& limits) {
  int budget = limits.tokens;
  std::vector<PassShare> shares;
  for (PassShare& share : Waiting(sessions)) {
    if (budget == 0) break;
    const DraftSession& session = share.mirror().session;
    const int missing = static_cast<int>(session.Missing().size());
    if (missing > 0) {
      share.tokens = std::min({missing, limits.session_tokens, budget});
      share.logit_rows = share.tokens == missing ? 1 : 0;
    } else {
      share.tokens = static_cast<int>(session.frontier().size());
      share.logit_rows = share.tokens;
      if (share.tokens > budget) continue;  // only whole depths
    }
    budget -= share.tokens;
    shares.push_back(share);
  }
  return shares;
}

bool ReadsPrompt(std::span<const PassShare> shares) {
  return !std::all_of(shares.begin(), shares.end(), CatchesUp);
}

}  // namespace outrider
