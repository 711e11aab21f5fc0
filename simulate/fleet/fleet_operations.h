// What happens to the machines of a simulated fleet: failures, updates, an autoscaler.
//
// Thread: one owner.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "simulate/fleet/event_queue.h"
#include "simulate/fleet/fleet_machines.h"

namespace outrider {

class FleetOperations {
 public:
  // All must outlive it.
  FleetOperations(const FleetScenario& scenario, EventQueue* queue, FleetMachines* machines)
      : scenario_(scenario), queue_(queue), machines_(machines) {}

  // Schedules the scenario's events.
  void Start();

 private:
  // One kind of machines as the autoscaler sees it.
  struct Scaled {
    double load = 0;    // at the last decision: seconds of passes, or of plans
    int coming = 0;     // on their way
    int cancelled = 0;  // no longer wanted, of those that will still come
    std::deque<std::pair<Time, int>> wanted = {};  // lately
  };

  void Run(const FleetEvent& event);
  void KillVerifiers(const FleetEvent& event);
  void KillDrafters(const FleetEvent& event);
  void Slow(const FleetEvent& event, bool is_verifiers);
  void Partition(const FleetEvent& event);
  // Updates the slots from `first` on, event.count of them at once; those without a process stay
  // empty.
  void UpdateDrafters(const FleetEvent& event, size_t first);
  void UpdateVerifiers(const FleetEvent& event, size_t first);
  // Ends a verifier that takes no new requests once it is idle, at `until` at the latest.
  void DrainAndEnd(FleetVerifier* verifier, Time until);
  void Scale();
  // By how many the machines should become more or fewer, so that each has `target` of the load
  // since the last decision.
  int Change(const FleetScaling& scaling, double target, int running, double load, Scaled* scaled);
  // Adds machines by `start`, after the lag.
  void Add(int count, Scaled* scaled, const std::function<void()>& start);
  // Cancels machines that are on their way. Returns how many others must end.
  static int Cancel(int count, Scaled* scaled);
  void ScaleVerifiers(const FleetScaling& scaling, const FleetMachines::Usage& usage);
  void ScaleDrafters(const FleetScaling& scaling, const FleetMachines::Usage& usage);

  const FleetScenario& scenario_;
  EventQueue* const queue_;
  FleetMachines* const machines_;
  Scaled scaled_verifiers_;
  Scaled scaled_drafters_;
};

}  // namespace outrider
