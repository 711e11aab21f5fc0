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
  HttpMetrics(MetricsRegistry& registry, std::string model_name)
      : registry_(registry), model_name_(std::move(model_name)) {}

  // `route`: one of our few, never a client's path; `code`: of the answer.
  void CountRequest(const std::string& route, int code) OUTRIDER_EXCLUDES(mu_);

 private:
  MetricsRegistry& registry_;
  const std::string model_name_;
  Mutex mu_;
  std::map<std::pair<std::string, int>, Counter> requests_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
