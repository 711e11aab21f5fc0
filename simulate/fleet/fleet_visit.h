// A drafter's short visit to a verifier that it does not serve, to learn what that wants.
#pragma once

#include <cstdint>
#include <optional>

#include "common/spec/drafter_demand.h"
#include "simulate/fleet/fleet_nodes.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

// Says the drafter's hello to the pool as a visit of this id; nullopt: it is refused.
// Thread: the verifier's node.
std::optional<DrafterDemand> AskDemand(uint64_t id, const FleetDrafter& drafter, DrafterPool* pool);

}  // namespace outrider
