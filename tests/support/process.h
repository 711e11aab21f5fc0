// A child process of a test, started with its output in a file and killed with the test at the
// latest.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/time_limit.h"

namespace outrider::testing {

class Process {
 public:
  // argv[0] is the program's path. Output (stdout and stderr) goes to `log_path`.
  // `sent_before`: a signal that arrives as soon as the program unblocks signals; 0: none.
  static std::unique_ptr<Process> Start(const std::vector<std::string>& argv,
                                        const std::string& log_path, int sent_before = 0);
  ~Process();  // SIGKILL if it still runs

  void Signal(int signal) const;
  // The exit code, 128 + signal when killed by one, -1 when it is still running after `limit`.
  int Wait(std::chrono::seconds limit = kTimeLimit);
  bool running();
  pid_t pid() const { return pid_; }

  std::string Log() const;
  // Waits for a line of the log that contains `text` and returns it; "" if the process exits or the
  // limit passes first. It is always the first such line since the start: to await another one, ask
  // for text that only that one has.
  std::string AwaitLine(const std::string& text, std::chrono::seconds limit = kTimeLimit);

 private:
  Process(pid_t pid, std::string log_path) : pid_(pid), log_path_(std::move(log_path)) {}

  pid_t pid_;
  std::string log_path_;
  int exit_code_ = -1;
  bool reaped_ = false;
};

}  // namespace outrider::testing
