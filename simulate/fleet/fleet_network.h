// When a message arrives: its zones' distance, chance, losses and partitions decide.
//
// Thread: one owner.
#pragma once

#include <vector>

#include "common/base/clock.h"
#include "simulate/fleet/fleet_scenario.h"

namespace outrider {

class FleetNetwork {
 public:
  FleetNetwork(const FleetNetworkScenario& scenario, uint64_t seed)
      : scenario_(scenario), random_(seed) {}

  // When a message arrives that is sent from zone to zone at `sent`, over a connection whose last
  // message in this direction arrives at `*last` (in order, as TCP delivers).
  Time Arrival(int from, int to, Time sent, Time* last);
  // Messages between these zones wait for the end.
  void Partition(int a, int b, Time from, Time until);

 private:
  struct Cut {
    int a, b;
    Time from, until;
  };

  const FleetNetworkScenario scenario_;
  SimulatedRandom random_;
  std::vector<Cut> cuts_;
};

}  // namespace outrider
