// The outcome of each kind of fault, as a table.
#pragma once

#include <string>
#include <vector>

#include "tests/chaos/fleet.h"
#include "tests/chaos/load.h"

namespace outrider::testing {

struct FaultEvent {
  Fault fault;
  bool everywhere;  // all drafters at once, otherwise one of them
  Time begin;
  Time end;  // before the next fault
  double fewest_connected;
  double timeouts;  // outrider_draft_timeouts_total, and so on, between begin and end
  double plain_rounds;
  double rounds;
  int failed;  // requests
};

// The q-quantile (0 to 1) of the waits, in seconds; 0 if there are none.
double Quantile(const std::vector<Wait>& waits, double q);

// One line per kind of fault that occurred.
std::string FaultTable(const std::vector<FaultEvent>& events, const std::vector<Wait>& waits);

}  // namespace outrider::testing
