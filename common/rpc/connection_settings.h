// Settings that both sides of a connection share.
#pragma once

namespace outrider {

// How often either side checks whether the other is alive, and how long it waits for the answer.
inline constexpr int kKeepaliveTimeMs = 20000;
inline constexpr int kKeepaliveTimeoutMs = 10000;

// The bytes that a peer may send on one stream before we read: the drafts of some hundred sessions,
// so that a round trip carries them at once. gRPC would measure how much pays, with a ping for most messages
// that are read, which delays what they carry by tens of microseconds on a busy core.
inline constexpr int kReadAheadBytes = 1 << 20;

}  // namespace outrider
