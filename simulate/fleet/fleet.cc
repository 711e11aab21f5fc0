#include "simulate/fleet/fleet.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "common/base/input_file.h"
#include "simulate/fleet/event_queue.h"
#include "simulate/fleet/fleet_load.h"
#include "simulate/fleet/fleet_machines.h"
#include "simulate/fleet/fleet_operations.h"
#include "simulate/fleet/rate_fit.h"

namespace outrider {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

FleetMachines::Usage Difference(const FleetMachines::Usage& after,
                                const FleetMachines::Usage& before) {
  PassSums passes = after.passes;
  passes.Add(before.passes, -1);
  return {.verifier_busy = after.verifier_busy - before.verifier_busy,
          .drafter_busy = after.drafter_busy - before.drafter_busy,
          .verifier_alive = after.verifier_alive - before.verifier_alive,
          .drafter_alive = after.drafter_alive - before.drafter_alive,
          .plan_seconds = after.plan_seconds - before.plan_seconds,
          .passes = passes};
}

// The busy share of the drafters; inside verifiers, that of the devices that they share.
double DrafterBusy(FleetLayout layout, const FleetMachines::Usage& usage) {
  return Ratio(usage.drafter_busy,
               layout == FleetLayout::kColocated ? usage.verifier_alive : usage.drafter_alive);
}

// The usage at the end of each interval, and at the end of the warm-up.
class Watcher {
 public:
  Watcher(const FleetScenario& scenario, FleetLayout layout, EventQueue* queue,
          FleetMachines* machines, FleetFigures* figures)
      : layout_(layout), machines_(machines), figures_(figures) {
    for (size_t i = 0; i < figures->timeline.size(); ++i) {
      const double end = std::min(scenario.seconds, scenario.interval * static_cast<double>(i + 1));
      queue->After(FromSeconds(end), [this, i] { EndInterval(i); });
    }
    queue->After(FromSeconds(scenario.warm_up), [this] { warm_ = machines_->usage(); });
  }

  FleetMachines::Usage SinceWarmUp() const { return Difference(machines_->usage(), warm_); }

 private:
  void EndInterval(size_t index) {
    FleetInterval& interval = figures_->timeline[index];
    const FleetMachines::Usage now = machines_->usage();
    const FleetMachines::Usage usage = Difference(now, last_);
    last_ = now;
    interval.verifiers = machines_->running_verifiers();
    interval.drafters = machines_->running_drafters();
    interval.verifier_busy = Ratio(usage.verifier_busy, usage.verifier_alive);
    interval.drafter_busy = DrafterBusy(layout_, usage);
  }

  const FleetLayout layout_;
  FleetMachines* const machines_;
  FleetFigures* const figures_;
  FleetMachines::Usage last_;
  FleetMachines::Usage warm_;
};

Result<std::vector<FleetLayout>> LayoutsOf(const std::string& name) {
  const std::vector<FleetLayout> all = {FleetLayout::kPlain, FleetLayout::kColocated,
                                        FleetLayout::kSplit};
  if (name == "all") return all;
  for (const FleetLayout layout : all) {
    if (name == LayoutName(layout)) return std::vector<FleetLayout>{layout};
  }
  return InvalidArgument("layout is \"" + name + "\", must be split, colocated, plain or all");
}

Result<FleetScenario> ReadScenario(const std::string& path) {
  OUTRIDER_ASSIGN(const std::string text, ReadFile(path, kMaxTextFileBytes));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  Result<FleetScenario> scenario = ParseFleetScenario(text, folder.string());
  if (!scenario.ok()) return scenario.status().Annotate(path);
  return scenario;
}

Result<RateTable> ReadRates(const std::string& path, const FleetScenario& scenario,
                            std::span<const FleetLayout> layouts) {
  OUTRIDER_ASSIGN(const std::string text, ReadFile(path, kMaxTextFileBytes));
  Result<RateTable> rates = ParseRates(text);
  if (!rates.ok()) return rates.status().Annotate(path);
  if (rates->scenario != scenario.rate_key) {
    return InvalidArgument(path + ": was measured for a scenario with other models, network, " +
                           "requests or policy; measure again with --fit");
  }
  for (const FleetLayout layout : layouts) {
    if (!rates->of(layout).columns.empty()) continue;
    return InvalidArgument(path + ": has no rates of layout " + LayoutName(layout) +
                           "; measure it with --fit --layout " + LayoutName(layout));
  }
  return rates;
}

}  // namespace

FleetFigures SimulateFleet(const FleetScenario& scenario, FleetLayout layout, uint64_t seed,
                           const LayoutRates* rates) {
  FleetFigures figures;
  EventQueue queue;
  auto machines = std::make_unique<FleetMachines>(scenario, layout, rates, seed, &queue);
  FleetLoad load(scenario, seed, &queue, machines.get(), &figures);
  machines->set_on_verifier_end([&load](FleetVerifier* v) { load.FailRequestsOf(v); });
  FleetOperations operations(scenario, &queue, machines.get());
  Watcher watcher(scenario, layout, &queue, machines.get(), &figures);
  load.Start();
  operations.Start();
  queue.RunUntil(Time{} + FromSeconds(scenario.seconds));

  const FleetMachines::Usage usage = watcher.SinceWarmUp();
  figures.seconds = scenario.seconds - scenario.warm_up;
  figures.verifier_busy = Ratio(usage.verifier_busy, usage.verifier_alive);
  figures.drafter_busy = DrafterBusy(layout, usage);
  figures.plan_seconds = usage.plan_seconds;
  figures.verifier_hours = usage.verifier_alive / 3600;
  figures.drafter_hours = usage.drafter_alive / 3600;
  figures.price = figures.verifier_hours * scenario.verifier.price +
                  figures.drafter_hours * scenario.drafter.price;
  figures.passes = usage.passes;
  figures.expelled = machines->expelled();
  load.Stop();
  machines.reset();  // engines tell the load about their ends
  return figures;
}

Result<FleetReport> RunFleet(const FleetOptions& options) {
  OUTRIDER_ASSIGN(const std::vector<FleetLayout> layouts, LayoutsOf(options.layout));
  OUTRIDER_ASSIGN(const FleetScenario scenario, ReadScenario(options.scenario_path));
  const bool by_rates = !options.rates_path.empty();
  RateTable rates;
  if (by_rates) {
    OUTRIDER_ASSIGN(rates, ReadRates(options.rates_path, scenario, layouts));
  } else {
    OUTRIDER_TRY(CheckRoundLimits(scenario));
  }
  FleetReport report{.by_rates = by_rates, .layouts = {}};
  for (const FleetLayout layout : layouts) {
    const LayoutRates* const of_layout = by_rates ? &rates.of(layout) : nullptr;
    report.layouts.push_back({layout, SimulateFleet(scenario, layout, options.seed, of_layout)});
  }
  return report;
}

Status FitFleet(const FleetOptions& options, const std::string& path,
                const std::function<void(const std::string&)>& on_run) {
  OUTRIDER_ASSIGN(const std::vector<FleetLayout> layouts, LayoutsOf(options.layout));
  OUTRIDER_ASSIGN(const FleetScenario scenario, ReadScenario(options.scenario_path));
  // Before the fit, which takes long.
  if (!std::ofstream(path, std::ios::app).is_open())
    return Unavailable(path + " cannot be written");
  OUTRIDER_ASSIGN(const RateTable rates,
                  FitRates(scenario, layouts, {.seed = options.seed}, on_run));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << RatesJson(rates) << "\n" << std::flush;
  return out.good() ? Status() : Unavailable(path + " cannot be written");
}

}  // namespace outrider
