#include "tests/support/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace outrider::testing {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(2);

}  // namespace

std::unique_ptr<Process> Process::Start(const std::vector<std::string>& argv,
                                        const std::string& log_path, int sent_before) {
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  const int log = open(log_path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_APPEND, 0644);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a crashed test leaves no processes running
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    signal(SIGINT, SIG_DFL);  // a shell starts background jobs with it ignored
    if (sent_before != 0) {
      sigset_t blocked;
      sigemptyset(&blocked);
      sigaddset(&blocked, sent_before);
      sigprocmask(SIG_BLOCK, &blocked, nullptr);
      kill(getpid(), sent_before);  // stays pending, also across execv
    }
    execv(args[0], args.data());
    _exit(127);
  }
  close(log);
  return std::unique_ptr<Process>(new Process(pid, log_path));
}

Process::~Process() {
  if (!running()) return;
  Signal(SIGCONT);
  Signal(SIGKILL);
  Wait();
}

void Process::Signal(int signal) const {
  if (!reaped_) kill(pid_, signal);
}

bool Process::running() {
  if (reaped_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  reaped_ = true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

int Process::Wait(std::chrono::seconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (running()) {
    if (std::chrono::steady_clock::now() >= until) return -1;
    std::this_thread::sleep_for(kPoll);
  }
  return exit_code_;
}

std::string Process::Log() const {
  std::ifstream in(log_path_);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

std::string Process::AwaitLine(const std::string& text, std::chrono::seconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (true) {
    const bool alive = running();  // before the read, so that the last output is seen
    std::istringstream lines(Log());
    for (std::string line; std::getline(lines, line);) {
      if (line.find(text) != std::string::npos) return line;
    }
    if (!alive || std::chrono::steady_clock::now() >= until) return "";
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace outrider::testing
