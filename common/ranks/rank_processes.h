// The processes of the ranks that follow: this program, started again once for each.
//
// Thread: one, the process's main thread: a rank ends when the thread that started it does.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/file_descriptor.h"
#include "common/base/status.h"
#include "common/ranks/channel.h"

namespace outrider {

// What a rank's process is started with: "--follow CHANNEL,REGION", file descriptors, before the
// arguments of the leading rank.
inline constexpr char kFollowFlag[] = "--follow";
struct FollowArguments {
  int channel = -1;
  int region = -1;
};
// Reads them; kInvalidArgument for any other text.
Result<FollowArguments> ParseFollow(const std::string& text);
// To be called first in such a process: it is called outrider-rank, ignores signals to stop, which
// the leading rank takes, and ends when that does.
void EndWithLeader();

class RankProcesses {
 public:
  // Starts ranks 1 to `ranks` - 1 of this program with the leading rank's `command` line. They
  // inherit `region`. kResourceExhausted if a process cannot be started or watched.
  static Result<std::shared_ptr<RankProcesses>> Start(const std::vector<std::string>& command,
                                                      int ranks, int region);
  ~RankProcesses();  // ends them
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // The channel to each, from rank 1 on. To be called once.
  std::vector<RankChannel> TakeChannels() { return std::move(channels_); }
  // From now on, `on_end` is called if a rank ends before its channel is closed, with how it did
  // ("signal 9"), on a thread of its own.
  void Watch(std::function<void(int rank, const std::string& how)> on_end);

 private:
  struct Process {
    pid_t pid = -1;
    FileDescriptor handle;  // a pidfd
  };

  RankProcesses() = default;
  Status StartOne(const std::vector<std::string>& command, int region);
  void WatchAll(const std::function<void(int rank, const std::string& how)>& on_end) const;

  std::vector<Process> processes_;  // from rank 1 on
  std::vector<RankChannel> channels_;
  FileDescriptor stop_;  // an eventfd that ends the watch
  std::thread watcher_;
};

}  // namespace outrider
