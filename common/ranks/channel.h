// One end of the connection between the process of the leading rank and that of another: messages
// of 32-bit integers over a Unix socket. Both ends are the same program on one machine.
//
// Thread: one owner of each end.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/base/file_descriptor.h"
#include "common/base/status.h"

namespace outrider {

class RankChannel {
 public:
  // Two connected ends, which a new program does not inherit. kResourceExhausted: out of file
  // descriptors.
  static Result<std::pair<RankChannel, RankChannel>> Connect();

  explicit RankChannel(FileDescriptor socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // kUnavailable: the other end is gone.
  Status Send(std::span<const int32_t> message);
  Status Receive(std::vector<int32_t>* message);
  // Unless another process has this end, too, a Receive at the other end fails from now on.
  void Close() { socket_.Close(); }  // not shutdown(): another process may have this end, too

 private:
  FileDescriptor socket_;
};

}  // namespace outrider
