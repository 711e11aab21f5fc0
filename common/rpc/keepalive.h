// How often either side of a connection checks whether the other is alive, and how long it waits
// for the answer.
#pragma once

namespace outrider {

struct Keepalive {
  int time_ms = 20000;
  int timeout_ms = 10000;
};

}  // namespace outrider
