#include "common/ranks/channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

namespace outrider {
namespace {

Status Gone(const char* what) {
  return Unavailable(std::string(what) + " another rank: " + std::strerror(errno));
}

Status SendAll(int fd, const void* data, size_t bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(fd, next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Gone("cannot write to");
    next += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return Status();
}

Status ReceiveAll(int fd, void* data, size_t bytes) {
  auto* next = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t received = recv(fd, next, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0) return Gone("cannot read from");
    if (received == 0) return Unavailable("another rank has ended");
    next += received;
    bytes -= static_cast<size_t>(received);
  }
  return Status();
}

}  // namespace

Result<std::pair<RankChannel, RankChannel>> RankChannel::Connect() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ResourceExhausted(std::string("no socket for another rank: ") + std::strerror(errno));
  }
  return std::pair(RankChannel(FileDescriptor(ends[0])), RankChannel(FileDescriptor(ends[1])));
}

Status RankChannel::Send(std::span<const int32_t> message) {
  const auto size = static_cast<uint32_t>(message.size());
  OUTRIDER_TRY(SendAll(fd(), &size, sizeof(size)));
  return SendAll(fd(), message.data(), message.size_bytes());
}

Status RankChannel::Receive(std::vector<int32_t>* message) {
  uint32_t size = 0;
  OUTRIDER_TRY(ReceiveAll(fd(), &size, sizeof(size)));
  message->resize(size);
  return ReceiveAll(fd(), message->data(), message->size() * sizeof(int32_t));
}

}  // namespace outrider
