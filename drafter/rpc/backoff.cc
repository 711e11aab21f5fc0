#include "drafter/rpc/backoff.h"

#include <algorithm>

namespace outrider {

Duration Backoff::Next() {
  if (failures_++ == 0) return Duration::zero();
  constexpr int kMaxDoublings = 10;
  const Duration bound = std::min(max_, kBase * (1 << std::min(failures_ - 2, kMaxDoublings)));
  return Duration(std::uniform_int_distribution<Duration::rep>(0, bound.count())(random_));
}

}  // namespace outrider
