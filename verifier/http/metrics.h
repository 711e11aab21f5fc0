// The HTTP front's metrics; docs/metrics.md lists them.
//
// Owner: main; outlives the front. Thread: any.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/metrics/registry.h"

namespace outrider {

class HttpMetrics {
 public:
  explicit HttpMetrics(MetricsRegistry& registry) : registry_(registry) {}

  // `route`: one of our few, never a client's path; `code`: of the answer.
  void CountRequest(const std::string& route, int code) OUTRIDER_EXCLUDES(mu_);

 private:
  MetricsRegistry& registry_;
  Mutex mu_;
  std::map<std::pair<std::string, int>, Counter> requests_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
