#include "common/base/signals.h"

#include <pthread.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "common/base/log.h"

namespace outrider {

StopOnSignal::StopOnSignal() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  // A pending signal is noticed before anything begins, however late the thread runs.
  const timespec at_once = {};
  if (const int signal = sigtimedwait(&signals_, nullptr, &at_once); signal > 0) Take(signal);
  thread_ = std::thread([this] { Watch(); });
}

StopOnSignal::~StopOnSignal() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGINT);  // ends its wait
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopOnSignal::Watch() {
  while (true) {
    int signal = 0;
    sigwait(&signals_, &signal);
    if (done_) return;
    if (signal_ != 0) {
      Log(LogLevel::kWarning, "ending at once, on a second signal",
          {{"signal", SignalName(signal)}});
      std::_Exit(128 + signal);
    }
    Take(signal);
  }
}

void StopOnSignal::Take(int signal) {
  signal_ = signal;
  signal_.notify_all();
  source_.request_stop();
}

void SleepUntil(Time time, const std::stop_token& stop) {
  std::mutex mu;
  std::unique_lock lock(mu);
  std::condition_variable_any stopped;
  stopped.wait_until(lock, stop, time, [] { return false; });
}

std::string SignalName(int signal) {
  if (signal == SIGTERM) return "SIGTERM";
  if (signal == SIGINT) return "SIGINT";
  return "signal " + std::to_string(signal);
}

void IgnoreBrokenPipes() { std::signal(SIGPIPE, SIG_IGN); }

}  // namespace outrider
