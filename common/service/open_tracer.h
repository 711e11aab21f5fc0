// Makes a service's tracer from its flags, with its metrics.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/metrics/registry.h"
#include "common/service/service_options.h"
#include "common/trace/tracer.h"

namespace outrider {

// Null without --trace-file. `service`: "outrider-verifier"; `instance`: distinguishes it from
// others of its kind, "" means host:pid; `sample_ratio`: see TracerOptions.
Result<std::unique_ptr<Tracer>> OpenTracer(const ServiceOptions& options,
                                           const std::string& service, const std::string& instance,
                                           double sample_ratio, Counter written, Counter dropped);

}  // namespace outrider
