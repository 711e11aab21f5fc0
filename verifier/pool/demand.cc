#include "verifier/pool/demand.h"

#include <algorithm>

namespace outrider {

DrafterDemand DemandOf(const ConnectedDrafters& drafters, const Assignments& assignments,
                       const RequestLoad& load, int most, Time now) {
  int attached = 0, held = 0;
  for (const auto& [id, drafter] : drafters) {
    const int of_drafter = assignments.CountOf(id);
    held += of_drafter;
    // One that leaves stays for its sessions alone; without any it is full for now.
    const bool leaves = drafter.load.session_limit == 0 && of_drafter > 0;
    if (!leaves && !drafter.punctuality.silent()) ++attached;
  }
  const bool has_room =
      ChooseDrafter(drafters, assignments, /*tokens=*/1, /*try_silent=*/false, now).has_value();
  const int without = has_room ? 0 : std::max(load.running - held, 0);
  const int sessions = held + without + std::min(load.waiting, load.running);
  const int wanted = (sessions + kSessionsPerDrafter - 1) / kSessionsPerDrafter;
  return {.wanted = std::clamp(wanted, 1, most), .attached = attached};
}

}  // namespace outrider
