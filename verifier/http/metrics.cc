#include "verifier/http/metrics.h"

namespace outrider {

void HttpMetrics::CountRequest(const std::string& route, int code) {
  MutexLock lock(mu_);
  auto found = requests_.find({route, code});
  if (found == requests_.end()) {
    const Counter counter = registry_.MakeCounter(
        "outrider_http_requests_total", "HTTP requests answered, by route and status code",
        {{"route", route}, {"code", std::to_string(code)}});
    found = requests_.emplace(std::pair(route, code), counter).first;
  }
  found->second.Increment();
}

}  // namespace outrider
