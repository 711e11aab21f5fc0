#include "common/base/line_limiter.h"

#include <algorithm>
#include <utility>

namespace outrider {

std::optional<uint64_t> LineLimiter::Admit(std::string_view message, Time now) {
  auto found = buckets_.find(message);
  if (found == buckets_.end()) {
    if (buckets_.size() >= kMaxMessages) message = "";
    found = buckets_.try_emplace(std::string(message), Bucket{.refilled = now}).first;
  }
  Bucket& bucket = found->second;
  const auto earned = (now - bucket.refilled) / kRefill;
  bucket.refilled += earned * kRefill;
  bucket.tokens = static_cast<int>(std::min<int64_t>(kBurst, bucket.tokens + earned));
  if (bucket.tokens == 0) {
    ++bucket.left_out;
    return std::nullopt;
  }
  --bucket.tokens;
  return std::exchange(bucket.left_out, 0);
}

}  // namespace outrider
