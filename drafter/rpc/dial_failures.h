// Decides which failed dials of one verifier are logged, and what their lines say: a verifier may
// be absent for hours, and is dialled every other second.
//
// Failures of one status code count as equal, whatever their texts: a resolver's errors alternate
// between IPv4 and IPv6. Of equal ones the first is logged, and one in each kRepeat after it.
//
// Thread: one at a time.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

class DialFailures {
 public:
  static constexpr Duration kRepeat = std::chrono::minutes(1);

  // A dial failed with `end`. Returns whether the failure is to be logged. `now` never decreases.
  bool Add(const Status& end, Time now);
  // Time since the first failure after the last Reset; zero without one.
  Duration Trying(Time now) const { return first_.has_value() ? now - *first_ : Duration::zero(); }
  // The verifier could be reached.
  void Reset();

 private:
  std::optional<Time> first_;
  std::map<Code, Time> logged_;  // when a failure of this code was logged last
};

// Why a dial failed, for the log. Where a server of HTTP/1 answered, it says what to dial instead.
std::string DescribeDialFailure(const Status& end);

}  // namespace outrider
