// Accepts the connections of a gRPC server in the place of gRPC's own listener, which takes any
// number of them and, when the process has no descriptor left, ends for good (gRPC 1.51,
// tcp_server_posix.cc).
//
// Thread: has its own; start and destroy it from one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace outrider {

// Both are lower where the process may not have twice as many files open.
struct ConnectionLimits {
  int64_t all = 4096;
  int64_t of_a_peer = 2048;  // an address; of IPv6 its network of 64 bits
};

class ConnectionIntake {
 public:
  // Takes over a connected, non-blocking socket.
  using TakeFn = std::function<void(int descriptor)>;

  // `address` as Listener::Listen has it. More connections than the limits are closed as they come.
  static Result<std::unique_ptr<ConnectionIntake>> Start(const std::string& address,
                                                         const ConnectionLimits& limits,
                                                         TakeFn take);
  // Returns when `take` is not called any more.
  ~ConnectionIntake();

  int port() const;

 private:
  class Impl;
  explicit ConnectionIntake(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace outrider
