#include "common/base/signals.h"

#include <pthread.h>

#include <cstdlib>

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

StopOnSignal::StopOnSignal() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::thread([this] { Watch(); });
}

StopOnSignal::~StopOnSignal() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // ends its wait
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopOnSignal::Watch() {
  while (true) {
    int signal = 0;
    sigwait(&signals_, &signal);
    if (done_) return;
    if (signal_ != 0) std::_Exit(128 + signal);
    signal_ = signal;
    source_.request_stop();
  }
}

}  // namespace outrider
