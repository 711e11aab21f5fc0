#include "verifier/pool/drafter_choice.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

namespace outrider {

bool HasRoom(const ConnectedDrafter& drafter, int sessions, int tokens) {
  // If it names a limit, it makes room by closing sessions of other verifiers.
  const std::optional<int>& limit = drafter.load.session_limit;
  const bool room =
      limit.has_value() ? sessions < *limit : drafter.load.sessions < drafter.hello.max_sessions;
  return room && sessions < drafter.hello.max_sessions && tokens <= drafter.hello.max_context;
}

std::optional<double> ConnectedDrafter::NetworkSeconds() const {
  constexpr uint64_t kEnough = 16;
  const std::optional<double> median = network.Get();
  if (network.count() < kEnough) return median;
  return std::max({*median, punctuality.round_trip().mean - drafting.mean, 0.0});
}

double ExpectedSeconds(const ConnectedDrafter& drafter, int sessions) {
  // Drafts are compared at one length, whatever lengths the drafters were asked for lately.
  constexpr double kDepths = 4;
  const Estimate& round_trip = drafter.punctuality.round_trip();
  // A new drafter is measured with one session before it gets more.
  if (!round_trip.measured) return sessions == 0 ? 0 : Punctuality::kMaxTimeout;
  if (!drafter.depth.measured) return round_trip.mean;
  const double network = std::max(round_trip.mean - drafter.drafting.mean, 0.0);
  return network + kDepths * drafter.depth.mean;
}

std::optional<uint64_t> ChooseDrafter(const ConnectedDrafters& drafters,
                                      const Assignments& assignments, int tokens, bool try_silent,
                                      Time now) {
  // Times within this factor of the best are alike: a pass may take nearly as long for many
  // sessions as for one, and then measured times differ by chance more than by sessions.
  constexpr double kAlike = 1.25;
  struct Candidate {
    uint64_t id = 0;
    double seconds = 0;
    int sessions = 0;  // of all verifiers
  };
  std::vector<Candidate> candidates;
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [id, drafter] : drafters) {
    const int sessions = assignments.CountOf(id);
    const Punctuality& punctuality = drafter.punctuality;
    if (punctuality.silent() && !try_silent) continue;
    if (punctuality.suspended() && (sessions > 0 || !punctuality.IsTrialDue(now))) continue;
    if (!HasRoom(drafter, sessions, tokens)) continue;
    // One that is suspended is due for a trial, and comes first.
    const double seconds = punctuality.suspended() ? 0 : ExpectedSeconds(drafter, sessions);
    best = std::min(best, seconds);
    candidates.push_back({id, seconds, sessions + drafter.others});
  }
  std::erase_if(candidates, [best](const Candidate& c) { return c.seconds > kAlike * best; });
  if (candidates.empty()) return std::nullopt;
  return std::ranges::min_element(
             candidates, {}, [](const Candidate& c) { return std::tie(c.sessions, c.seconds); })
      ->id;
}

}  // namespace outrider
