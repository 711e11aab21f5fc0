// SIGTERM and SIGINT as something to wait for. Made in main before any thread starts: the signals
// are blocked in every thread and taken by Wait. A second signal during the shutdown ends the
// process.
#pragma once

#include <csignal>

namespace outrider {

class SignalWaiter {
 public:
  SignalWaiter();
  // Returns the signal. From then on another one kills the process as usual.
  int Wait();

 private:
  sigset_t signals_;
};

}  // namespace outrider
