// One end of the connection between the process of the leading rank and that of another: messages
// of 32-bit integers over a Unix socket. Both ends are the same program on one machine.
//
// Thread: one owner of each end.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace outrider {

class RankChannel {
 public:
  // Two connected ends, which a new program does not inherit. kResourceExhausted: out of file
  // descriptors.
  static Result<std::pair<RankChannel, RankChannel>> Connect();

  explicit RankChannel(int fd) : fd_(fd) {}  // takes it over
  ~RankChannel() { Close(); }
  RankChannel(RankChannel&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RankChannel& operator=(RankChannel&&) = delete;

  int fd() const { return fd_; }
  // kUnavailable: the other end is gone.
  Status Send(std::span<const int32_t> message);
  Status Receive(std::vector<int32_t>* message);
  // Unless another process has this end, too, a Receive at the other end fails from now on.
  void Close();

 private:
  int fd_;
};

}  // namespace outrider
