// The counters of a service's spans, by where they go. Thread: any.
#pragma once

#include "common/metrics/registry.h"

namespace outrider {

struct TraceCounters {
  Counter written;   // to --trace-file
  Counter dropped;   // because the disk was too slow, full or gone
  Counter sent;      // to --trace-endpoint, whose collector accepted them
  Counter not_sent;  // because that collector rejected them, was too slow or gone
};

}  // namespace outrider
