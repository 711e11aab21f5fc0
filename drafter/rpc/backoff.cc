#include "drafter/rpc/backoff.h"

#include <algorithm>

namespace outrider {

Duration Backoff::Next() {
  const int doublings = failures_++ - (bounds_.first_at_once ? 1 : 0);
  if (doublings < 0) return Duration::zero();
  constexpr int kMaxDoublings = 10;
  const Duration bound =
      std::min(bounds_.last, bounds_.first * (1 << std::min(doublings, kMaxDoublings)));
  return Duration(std::uniform_int_distribution<Duration::rep>(0, bound.count())(random_));
}

}  // namespace outrider
