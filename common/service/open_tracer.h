// Makes a service's tracer from its flags, with its metrics.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/metrics/trace_counters.h"
#include "common/service/service_options.h"
#include "common/trace/tracer.h"

namespace outrider {

// Null without --trace-file and --trace-endpoint. `service`: "outrider-verifier"; `instance`:
// distinguishes it from others of its kind, "" means host:pid; `sample_ratio`: see Tracer.
Result<std::unique_ptr<Tracer>> OpenTracer(const ServiceOptions& options,
                                           const std::string& service, const std::string& instance,
                                           double sample_ratio, const TraceCounters& counters);

}  // namespace outrider
