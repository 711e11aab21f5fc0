// What happens to the machines of a simulated fleet: failures, updates, an autoscaler.
//
// Thread: one owner.
#pragma once

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
    double busy = 0;  // seconds at the last decision
    double alive = 0;
    int coming = 0;  // on their way
  };

  void Run(const FleetEvent& event);
  void KillVerifiers(const FleetEvent& event);
  void KillDrafters(const FleetEvent& event);
  void Slow(const FleetEvent& event, bool is_verifiers);
  void Partition(const FleetEvent& event);
  // Updates the slots from `first` on, event.count of them at once.
  void UpdateDrafters(const FleetEvent& event, size_t first);
  void UpdateVerifiers(const FleetEvent& event, size_t first);
  // Ends a verifier that takes no new requests once it is idle, at `until` at the latest.
  void DrainAndEnd(FleetVerifier* verifier, Time until);
  void Scale();
  // Changes the number of verifiers or drafters towards what `busy` of them need.
  int Wanted(const FleetScaling& scaling, int running, double busy, double alive,
             Scaled* scaled) const;
  void ScaleVerifiers(const FleetScaling& scaling, const FleetMachines::Usage& usage);
  void ScaleDrafters(const FleetScaling& scaling, const FleetMachines::Usage& usage);

  const FleetScenario& scenario_;
  EventQueue* const queue_;
  FleetMachines* const machines_;
  Scaled scaled_verifiers_;
  Scaled scaled_drafters_;
};

}  // namespace outrider
