#include "common/base/signals.h"

#include <pthread.h>

namespace outrider {

SignalWaiter::SignalWaiter() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  // A peer that hangs up is a failed write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
}

int SignalWaiter::Wait() {
  int signal = 0;
  sigwait(&signals_, &signal);
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  return signal;
}

}  // namespace outrider
