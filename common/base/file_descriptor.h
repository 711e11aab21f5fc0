// Owns a file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace outrider {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}  // -1: none
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  void Close() {
    if (const int fd = std::exchange(fd_, -1); fd >= 0) close(fd);
  }

 private:
  int fd_;
};

}  // namespace outrider
