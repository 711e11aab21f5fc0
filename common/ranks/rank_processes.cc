#include "common/ranks/rank_processes.h"

#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

namespace outrider {
namespace {

Status Failed(const char* what, int error) {
  return ResourceExhausted(std::string("the process of another rank cannot be ") + what + ": " +
                           std::strerror(error));
}

std::string HowItEnded(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return "exit code " + std::to_string(info.si_status);
  return "signal " + std::to_string(info.si_status);
}

}  // namespace

Result<FollowArguments> ParseFollow(const std::string& text) {
  FollowArguments arguments;
  char end = 0;
  if (std::sscanf(text.c_str(), "%d,%d%c", &arguments.channel, &arguments.region, &end) != 2 ||
      arguments.channel < 0) {
    return InvalidArgument(std::string(kFollowFlag) + ": \"" + text +
                           "\" is not what a leading rank gives; give --devices instead");
  }
  return arguments;
}

void EndWithLeader() {
  prctl(PR_SET_NAME, "outrider-rank");  // otherwise "exe"
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  // If it has ended already, its channel says so.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

Result<std::shared_ptr<RankProcesses>> RankProcesses::Start(const std::vector<std::string>& command,
                                                            int ranks, int region) {
  std::shared_ptr<RankProcesses> processes(new RankProcesses());
  processes->stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
  if (processes->stop_.get() < 0) return Failed("watched", errno);
  for (int rank = 1; rank < ranks; ++rank) OUTRIDER_TRY(processes->StartOne(command, region));
  return processes;
}

Status RankProcesses::StartOne(const std::vector<std::string>& command, int region) {
  OUTRIDER_ASSIGN(auto ends, RankChannel::Connect());
  const int channel = ends.second.fd();
  std::vector<std::string> words = {command.front(), kFollowFlag,
                                    std::to_string(channel) + "," + std::to_string(region)};
  words.insert(words.end(), command.begin() + 1, command.end());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Onto themselves: that lets the new program inherit them.
  posix_spawn_file_actions_adddup2(&actions, channel, channel);
  if (region >= 0) posix_spawn_file_actions_adddup2(&actions, region, region);
  Process process;
  const int error =
      posix_spawn(&process.pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Failed("started", error);
  // Not pidfd_open: glibc 2.36 declares it for C alone.
  process.handle = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  const int watch_error = process.handle.get() < 0 ? errno : 0;
  processes_.push_back(std::move(process));
  channels_.push_back(std::move(ends.first));
  // Linux has it since 5.3.
  return watch_error != 0 ? Failed("watched (pidfd_open)", watch_error) : Status();
}

RankProcesses::~RankProcesses() {
  if (watcher_.joinable()) {
    const uint64_t one = 1;
    (void)!write(stop_.get(), &one, sizeof(one));
    watcher_.join();
  }
  for (const Process& process : processes_) {
    kill(process.pid, SIGKILL);  // it has nothing to finish
    waitpid(process.pid, nullptr, 0);
  }
}

void RankProcesses::Watch(std::function<void(int rank, const std::string& how)> on_end) {
  watcher_ = std::thread([this, on_end = std::move(on_end)] { WatchAll(on_end); });
}

void RankProcesses::WatchAll(
    const std::function<void(int rank, const std::string& how)>& on_end) const {
  std::vector<pollfd> watched = {{stop_.get(), POLLIN, 0}};
  for (const Process& process : processes_) watched.push_back({process.handle.get(), POLLIN, 0});
  while (true) {
    if (poll(watched.data(), watched.size(), -1) < 0) continue;  // interrupted
    if (watched[0].revents != 0) return;
    for (size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents == 0) continue;
      siginfo_t info = {};
      waitid(P_PIDFD, static_cast<id_t>(watched[i].fd), &info, WEXITED | WNOWAIT);
      // It ends well only when its channel is closed.
      const bool is_well = info.si_code == CLD_EXITED && info.si_status == 0;
      if (!is_well) return on_end(static_cast<int>(i), HowItEnded(info));
      watched[i].fd = -1;
    }
  }
}

}  // namespace outrider
