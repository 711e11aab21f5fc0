// A TCP proxy in user space that delays or breaks a loopback connection, where the kernel's netem
// is not available. Needs no privileges.
//
// - Delay: every byte is held for half of `rtt` in each direction, so a question and its answer
//   take `rtt` longer. Connecting itself is not delayed.
// - Loss: a proxy cannot drop a segment, since both of its sides are TCP. It reproduces the effect
//   of a loss on the bytes: with the given probability per 1448 bytes read, they and all later
//   bytes in that direction are held for `stall` longer, as by the sender's retransmission timer.
//   TCP's slower sending after a loss is not reproduced.
// - Partition: nothing is forwarded or accepted until Heal; connections stay open, and bytes wait
//   in the kernels' buffers. A new connection still enters the listen queue, but gets no answer.
//   The end of a connection is not forwarded either.
// - Cut: every connection is reset on both sides.
//
// At most 1 MiB is held per direction; a full line is not read, so its sender waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "tests/support/delay_line.h"

namespace outrider::testing {

struct DelayProxyOptions {
  std::string listen = "127.0.0.1:0";  // IPv4 address and port; port 0: any
  std::string to;                      // IPv4 address (or localhost) and port
  Duration rtt{};                      // added, half of it in each direction
  double loss = 0;                     // 0 to 1
  Duration stall = std::chrono::milliseconds(200);
  uint64_t seed = 1;  // of the losses
};

// All methods may be called from any thread, and have taken effect when they return: after
// Partition no byte passes, after Cut the sockets are closed.
class DelayProxy {
 public:
  static Result<std::unique_ptr<DelayProxy>> Start(const DelayProxyOptions& options);
  ~DelayProxy();  // resets open connections

  int port() const { return port_; }
  std::string address() const;

  // For bytes that are read from now on.
  void SetRtt(Duration rtt);
  void SetLoss(double loss);
  void Partition();
  void Heal();
  void Cut();

  int connections();  // open now
  int stalls();       // losses so far

 private:
  struct Connection;

  DelayProxy(int listener, int port, const DelayProxyOptions& options);
  void Run();
  void Accept() OUTRIDER_REQUIRES(mu_);
  void CloseAll() OUTRIDER_REQUIRES(mu_);
  void Wake();

  const int listener_;
  const int port_;
  const std::string to_;
  const int wake_;

  Mutex mu_;
  std::condition_variable changed_;
  PathDistribution distribution_ OUTRIDER_GUARDED_BY(mu_);
  uint64_t seed_ OUTRIDER_GUARDED_BY(mu_);
  bool partitioned_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool cut_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool stop_ OUTRIDER_GUARDED_BY(mu_) = false;
  int stalls_ OUTRIDER_GUARDED_BY(mu_) = 0;  // of closed connections
  std::vector<std::unique_ptr<Connection>> connections_ OUTRIDER_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace outrider::testing
