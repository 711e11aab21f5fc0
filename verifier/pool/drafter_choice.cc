#include "verifier/pool/drafter_choice.h"

#include <algorithm>
#include <tuple>

namespace outrider {
namespace {

// Sessions that the drafter holds, as far as we know: it may have others from other verifiers.
int AllSessions(const ConnectedDrafter& drafter, int sessions) {
  return std::max(sessions, drafter.load.sessions);
}

// Whether there is room for one more session of `tokens` tokens.
bool HasRoom(const ConnectedDrafter& drafter, int sessions, int tokens, Time now) {
  if (drafter.punctuality.suspended() && (sessions > 0 || !drafter.punctuality.IsTrialDue(now))) {
    return false;
  }
  // If it names a limit, it makes room by closing sessions of other verifiers.
  const std::optional<int>& limit = drafter.load.session_limit;
  const bool room =
      limit.has_value() ? sessions < *limit : drafter.load.sessions < drafter.hello.max_sessions;
  return room && sessions < drafter.hello.max_sessions && tokens <= drafter.hello.max_context;
}

}  // namespace

std::optional<double> ConnectedDrafter::NetworkSeconds() const {
  constexpr uint64_t kEnough = 16;
  const std::optional<double> median = network.Get();
  if (network.count() < kEnough) return median;
  return std::max({*median, punctuality.round_trip().mean - drafting.mean, 0.0});
}

double ExpectedSeconds(const ConnectedDrafter& drafter, int sessions) {
  const Estimate& round_trip = drafter.punctuality.round_trip();
  // A new drafter is measured with one session before it gets more.
  if (!round_trip.measured) return sessions == 0 ? 0 : Punctuality::kMaxTimeout;
  const double network = std::max(round_trip.mean - drafter.drafting.mean, 0.0);
  const int all = std::max(AllSessions(drafter, sessions), 1);
  return network + drafter.drafting.mean * (all + 1) / all;
}

std::optional<uint64_t> ChooseDrafter(const ConnectedDrafters& drafters,
                                      const Assignments& assignments, int tokens, bool try_silent,
                                      Time now) {
  // A suspended drafter that is due for a trial comes first, then the lower expected time; among
  // equals (or new ones) the fewer sessions.
  using Rank = std::tuple<bool, double, int>;
  std::optional<uint64_t> best;
  Rank best_rank;
  for (const auto& [id, drafter] : drafters) {
    const int sessions = assignments.CountOf(id);
    if (drafter.punctuality.silent() && !try_silent) continue;
    if (!HasRoom(drafter, sessions, tokens, now)) continue;
    const Rank rank(!drafter.punctuality.suspended(), ExpectedSeconds(drafter, sessions),
                    AllSessions(drafter, sessions));
    if (best.has_value() && best_rank <= rank) continue;
    best = id;
    best_rank = rank;
  }
  return best;
}

}  // namespace outrider
