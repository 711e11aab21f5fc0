// GET /ready of a metrics port, for probes that cannot call the gRPC health service (under mutual
// TLS, the kubelet has no certificate): 200 while the program is ready, otherwise 503.
//
// Thread: any.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "common/metrics/exporter.h"

namespace outrider {

class Readiness {
 public:
  // Not ready at first. `exporter`: nullptr without a port. `why_not`: the answer until ready.
  Readiness(MetricsExporter* exporter, std::string why_not);
  void Set(bool ready) { *ready_ = ready; }

 private:
  const std::shared_ptr<std::atomic<bool>> ready_;  // shared with the page, which may outlive this
};

}  // namespace outrider
