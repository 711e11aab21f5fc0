// SIGTERM and SIGINT as a request to stop.
#pragma once

#include <atomic>
#include <csignal>
#include <stop_token>
#include <string>
#include <thread>

#include "common/base/clock.h"

namespace outrider {

// During its lifetime, the first SIGTERM or SIGINT requests a stop on token() (a pending one does
// so at once), and a second one ends the process at once with 128 + its number. Construct it before
// other threads: it blocks the signals in the calling thread, and threads started by it inherit
// that.
//
// Callbacks of the token run on a separate thread, not in a signal handler, so they may take locks.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();  // restores the previous signal handling
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  // The signal that was received; 0: none.
  int signal() const { return signal_; }
  // Waits for a signal.
  void Wait() const { signal_.wait(0); }

 private:
  void Take(int signal);
  void Watch();

  sigset_t signals_;
  sigset_t before_;
  std::stop_source source_;
  std::atomic<int> signal_ = 0;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

// Returns at `time`, or earlier if `stop` is requested.
void SleepUntil(Time time, const std::stop_token& stop);

// From now on, a peer that hangs up causes a failed write, not the end of the process.
void IgnoreBrokenPipes();

// "SIGTERM" or "SIGINT"; another number as "signal N".
std::string SignalName(int signal);

}  // namespace outrider
