#include "drafter/rpc/dial_failures.h"

namespace outrider {

bool DialFailures::Add(const Status& end, Time now) {
  if (!first_.has_value()) first_ = now;
  const auto [logged, is_new] = logged_.try_emplace(end.code(), now);
  if (!is_new && now - logged->second < kRepeat) return false;
  logged->second = now;
  return true;
}

void DialFailures::Reset() {
  first_.reset();
  logged_.clear();
}

std::string DescribeDialFailure(const Status& end) {
  std::string why = end.ToString();
  // gRPC's words for an answer in HTTP/1 (chttp2's frame parser).
  if (why.find("http1.x server") != std::string::npos) {
    why += "; that is an HTTP port: dial the verifier's --listen";
  }
  return why;
}

}  // namespace outrider
