#include "simulate/fleet/fleet_network.h"

#include <algorithm>
#include <cstdlib>

#include "simulate/fleet/event_queue.h"

namespace outrider {

Time FleetNetwork::Arrival(int from, int to, Time sent, Time* last) {
  double ms = scenario_.within_ms.Draw(random_);
  for (int zone = 0; zone < std::abs(from - to); ++zone) ms += scenario_.between_ms.Draw(random_);
  if (scenario_.loss > 0) {
    // TCP doubles its timeout with every loss of the same segment (RFC 6298, 5.5).
    double timeout = scenario_.retransmit_ms;
    for (; random_.Uniform() < scenario_.loss; timeout *= 2) ms += timeout;
  }
  Time leaves = sent;
  for (const Cut& cut : cuts_) {
    const bool crosses = std::min(from, to) <= std::min(cut.a, cut.b) &&
                         std::max(from, to) >= std::max(cut.a, cut.b);
    if (crosses && sent >= cut.from && sent < cut.until) leaves = std::max(leaves, cut.until);
  }
  *last = std::max(*last, leaves + FromSeconds(ms / 1e3));
  return *last;
}

void FleetNetwork::Partition(int a, int b, Time from, Time until) {
  cuts_.push_back({a, b, from, until});
}

}  // namespace outrider
