// How often either side of a connection asks whether the other is still there, and how long it
// waits for the answer.
#pragma once

namespace outrider {

inline constexpr int kKeepaliveTimeMs = 20000;
inline constexpr int kKeepaliveTimeoutMs = 10000;

}  // namespace outrider
