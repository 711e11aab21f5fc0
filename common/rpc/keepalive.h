// How often either side of a connection checks whether the other is alive, and how long it waits
// for the answer.
#pragma once

namespace outrider {

inline constexpr int kKeepaliveTimeMs = 20000;
inline constexpr int kKeepaliveTimeoutMs = 10000;

}  // namespace outrider
