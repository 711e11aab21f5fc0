// SIGTERM and SIGINT as a request to stop.
#pragma once

#include <atomic>
#include <csignal>
#include <stop_token>
#include <thread>

namespace outrider {

// While it lives, the first SIGTERM or SIGINT asks token() to stop (one that is pending already
// does so at once), and a second one ends the process at once with 128 + its number. Made before
// the other threads: it blocks the signals in the calling thread, and those that it starts inherit
// that.
//
// Callbacks of the token run on a thread of its own, not in a signal handler: they may take locks.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();  // signals are as they were before
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  // The signal that came; 0: none.
  int signal() const { return signal_; }
  // Until one comes.
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

// A peer that hangs up is a failed write from now on, not the end of the process.
void IgnoreBrokenPipes();

}  // namespace outrider
