#include "simulate/fleet/rate_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simulate/fleet/fleet.h"

namespace outrider {
namespace {

// Until the controllers and the pools know their drafters.
constexpr double kWarmUpSeconds = 10;
constexpr double kMostSeconds = 600;
// With few requests at once, fewer finish in a second.
constexpr double kRequestSeconds = 400;
constexpr double kMostOfFewSeconds = 60;

// Shares `total` out in proportion to `weights`: the largest remainders are rounded up.
std::vector<int> Apportion(int total, const std::vector<int>& weights) {
  double sum = 0;
  for (const int weight : weights) sum += weight;
  std::vector<int> parts(weights.size());
  double wanted = 0;
  int given = 0;
  for (size_t i = 0; i < weights.size() && sum > 0; ++i) {
    wanted += total * weights[i] / sum;
    parts[i] = static_cast<int>(std::lround(wanted)) - given;
    given += parts[i];
  }
  return parts;
}

// Numbers of requests at a verifier: 1, 2, 3, 4, 6, 8, 12, 16 .. up to what it takes.
std::vector<int> RequestCounts(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count *= 2) {
    counts.push_back(count);
    if (count > 1 && count + count / 2 < most) counts.push_back(count + count / 2);
  }
  counts.push_back(most);
  return counts;
}

class Fit {
 public:
  Fit(const FleetScenario& scenario, const RateFitOptions& options)
      : scenario_(scenario), options_(options) {
    std::vector<int> verifiers, drafters;
    for (const FleetZone& zone : scenario.zones) {
      verifiers.push_back(zone.verifiers);
      drafters.push_back(zone.drafters);
    }
    const int zones_with = static_cast<int>(
        std::count_if(verifiers.begin(), verifiers.end(), [](int v) { return v > 0; }));
    verifiers_ = std::min(scenario.verifiers(), std::max(options.verifiers, zones_with));
    verifier_zones_ = Apportion(verifiers_, verifiers);
    drafter_weights_ = drafters;
  }

  // Numbers of drafters of all the run's verifiers.
  std::vector<int> DrafterCounts(FleetLayout layout) const {
    if (layout != FleetLayout::kSplit) return {0};
    const double fleet = static_cast<double>(scenario_.drafters()) / scenario_.verifiers();
    std::vector<int> counts = {0};
    for (const double part : {0.5, 1.0, 2.0}) {
      const int count = std::clamp(static_cast<int>(std::lround(part * fleet * verifiers_)),
                                   scenario_.drafters() > 0 ? 1 : 0, kMaxRoundDrafters);
      if (count > counts.back()) counts.push_back(count);
    }
    return counts;
  }

  // A column's drafters per verifier.
  double DraftersEach(FleetLayout layout, int drafters) const {
    return layout == FleetLayout::kColocated ? 1 : static_cast<double>(drafters) / verifiers_;
  }

  Result<RatePoint> Measure(FleetLayout layout, int drafters, int requests) const {
    const FleetScenario run = ScenarioOf(drafters, requests);
    const FleetFigures figures = SimulateFleet(run, layout, options_.seed);
    const FleetSums& sums = figures.sums;
    if (sums.requests == 0 || sums.further_tokens == 0) {
      return InvalidArgument("no request finished in " + std::to_string(figures.seconds) +
                             " s with " + std::to_string(requests) +
                             " at once at each verifier; shorten output_tokens");
    }
    const double tokens = sums.first_tokens + sums.further_tokens;
    const double spread = sums.requests * sums.xx - sums.x * sums.x;
    RatePoint point;
    // Without the clients that pause (Little's law).
    const double running = (sums.y + sums.further_seconds) / sums.requests;
    point.requests = requests * running / (running + run.arrivals.pause.Mean());
    // Least squares; prompts of one length have no slope.
    if (spread > 1e-9 * sums.xx) {
      const double slope = (sums.requests * sums.xy - sums.x * sums.y) / spread;
      point.prompt_token_seconds = std::max(slope, 0.0);
    }
    point.first_seconds =
        std::max((sums.y - point.prompt_token_seconds * sums.x) / sums.requests, 0.0);
    point.first_tokens = sums.first_tokens / sums.requests;
    point.token_seconds = sums.further_seconds / sums.further_tokens;
    point.drafted = figures.draft_tokens / tokens;
    point.accepted = figures.accepted_tokens / tokens;
    point.verifier_busy = figures.verifier_busy;
    const double machines =
        layout == FleetLayout::kColocated ? figures.verifier_hours : figures.drafter_hours;
    point.drafter_seconds = figures.drafter_busy * machines * 3600 / figures.tokens;
    return point;
  }

 private:
  FleetScenario ScenarioOf(int drafters, int requests) const {
    FleetScenario run = scenario_;
    const std::vector<int> drafter_zones = Apportion(drafters, drafter_weights_);
    for (size_t zone = 0; zone < run.zones.size(); ++zone) {
      run.zones[zone] = {.verifiers = verifier_zones_[zone], .drafters = drafter_zones[zone]};
    }
    if (run.drafter.subset >= verifiers_) run.drafter.subset = 0;
    const bool has_clients = run.arrivals.clients > 0;
    run.arrivals.trace.clear();
    run.arrivals.clients = requests * verifiers_;
    // Others' requests come at any time during a pass, as they do after such a pause.
    if (!has_clients) {
      run.arrivals.pause = Distribution::Uniform(0, 2 * run.verifier.cost.Seconds(requests));
    }
    run.events.clear();
    run.autoscaler.reset();
    double tokens = 0, shares = 0;
    for (const FleetClass& c : run.classes) {
      tokens += c.share * c.output_tokens.Mean();
      shares += c.share;
    }
    const double request_seconds = tokens / shares * run.verifier.cost.Seconds(requests);
    const double of_few = std::min(kRequestSeconds / requests, kMostOfFewSeconds);
    run.warm_up = kWarmUpSeconds;
    run.seconds = run.warm_up +
                  std::min(std::max({options_.seconds, of_few, 4 * request_seconds}), kMostSeconds);
    run.interval = run.seconds;
    return run;
  }

  const FleetScenario& scenario_;
  const RateFitOptions& options_;
  int verifiers_ = 1;
  std::vector<int> verifier_zones_;
  std::vector<int> drafter_weights_;
};

}  // namespace

Result<RateTable> FitRates(const FleetScenario& scenario, std::span<const FleetLayout> layouts,
                           const RateFitOptions& options,
                           const std::function<void(const std::string&)>& on_run) {
  const Fit fit(scenario, options);
  RateTable table{.scenario = scenario.rate_key};
  for (const FleetLayout layout : layouts) {
    for (const int drafters : fit.DrafterCounts(layout)) {
      RateColumn& column = table.of(layout).columns.emplace_back();
      column.drafters = fit.DraftersEach(layout, drafters);
      for (const int requests : RequestCounts(scenario.verifier.sessions)) {
        on_run(std::string(LayoutName(layout)) + ": " + std::to_string(column.drafters) +
               " drafters and " + std::to_string(requests) + " requests at each verifier");
        OUTRIDER_ASSIGN(column.points.emplace_back(), fit.Measure(layout, drafters, requests));
      }
    }
  }
  return table;
}

}  // namespace outrider
