// The kubelet's gRPC probe: grpc.health.v1.Health/Check.
//
// Thread: any.
#pragma once

#include <chrono>
#include <string>

namespace outrider::testing {

enum class Health { kServing, kNotServing, kUnknownService, kUnreachable };

// With `service` "", checks liveness.
Health Probe(const std::string& address, const std::string& service,
             std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace outrider::testing
