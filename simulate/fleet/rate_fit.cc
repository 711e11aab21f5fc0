#include "simulate/fleet/rate_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simulate/fleet/fleet.h"

namespace outrider {
namespace {

// At least, until the controllers and the pools know their drafters.
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
    const PassSums& sums = figures.passes;
    if (sums.tokens == 0 || sums.first_chunks == 0) {
      return InvalidArgument("no request had a second chunk of tokens in " +
                             std::to_string(figures.seconds) + " s with " +
                             std::to_string(requests) +
                             " at once at each verifier; shorten prompt_tokens");
    }
    const double machines =
        layout == FleetLayout::kColocated ? figures.verifier_hours : figures.drafter_hours;
    return RatePoint{.requests = sums.decoding / sums.passes,
                     .pass_rows = std::max(sums.rows, 0.0) / sums.decoding,
                     .pass_tokens = sums.tokens / sums.decoding,
                     .idle_seconds = sums.idle_seconds / sums.passes,
                     .first_tokens = sums.first_tokens / sums.first_chunks,
                     .drafted = sums.drafted / figures.tokens,
                     .accepted = sums.accepted / figures.tokens,
                     .drafter_seconds = figures.drafter_busy * machines * 3600 / figures.tokens,
                     .plan_seconds = figures.plan_seconds / figures.tokens};
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
    // Each verifier learns of each drafter from a request.
    const int attached =
        run.drafter.subset == 0 ? drafters : drafters * run.drafter.subset / verifiers_;
    run.warm_up = std::clamp(attached * request_seconds / requests, kWarmUpSeconds, kMostSeconds);
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
        OUTRIDER_ASSIGN(const RatePoint point, fit.Measure(layout, drafters, requests));
        // More requests than it reads prompts for wait in turn: no more of them decode.
        const bool is_further =
            column.points.empty() || point.requests > column.points.back().requests;
        if (is_further) column.points.push_back(point);
      }
    }
  }
  return table;
}

}  // namespace outrider
