// The full names of the services of the contract, by which health checks, load balancing and traces
// know them.
#pragma once

#include "outrider/v1/drafting.grpc.pb.h"
#include "outrider/v1/generation.grpc.pb.h"

namespace outrider {

inline constexpr const char* kGenerationService = v1::Generation::service_full_name();
inline constexpr const char* kDraftingService = v1::Drafting::service_full_name();

}  // namespace outrider
