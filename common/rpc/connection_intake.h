// Accepts the connections of a gRPC server instead of gRPC's own listener, which accepts any number
// and stops for good when the process has no descriptors left (gRPC 1.51, tcp_server_posix.cc).
//
// Thread: has its own; start and destroy it from one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace outrider {

// Both are lower if the process cannot have twice as many open files.
struct ConnectionLimits {
  int64_t total = 4096;
  int64_t per_peer = 2048;  // per IPv4 address or IPv6 network of 64 bits
};

class ConnectionIntake {
 public:
  // Takes over a connected, non-blocking socket.
  using TakeFn = std::function<void(int descriptor)>;

  // `address`: see Listener::Listen. Connections beyond the limits are closed at once.
  static Result<std::unique_ptr<ConnectionIntake>> Start(const std::string& address,
                                                         const ConnectionLimits& limits,
                                                         TakeFn take);
  // After this, `take` is not called any more.
  ~ConnectionIntake();

  int port() const;

 private:
  class Impl;
  explicit ConnectionIntake(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace outrider
