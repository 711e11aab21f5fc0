// A file of bounded size: at half of the bound it is renamed to PATH.1, which replaces the previous
// one, and a new file begins. Lines are never split between the two.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/file_descriptor.h"
#include "common/base/status.h"

namespace outrider {

class TraceFile {
 public:
  // Appends to existing files. `max_bytes`: of the two files together.
  static Result<std::unique_ptr<TraceFile>> Open(const std::string& path, uint64_t max_bytes);

  // `line` includes its end of line. After an error no part of it remains, and the next call may
  // succeed.
  Status Append(std::string line);

 private:
  TraceFile(std::string path, uint64_t max_bytes)
      : path_(std::move(path)), bytes_of_each_(max_bytes / 2) {}
  Status Reopen();

  const std::string path_;
  const uint64_t bytes_of_each_;
  FileDescriptor file_;
  uint64_t bytes_ = 0;
};

}  // namespace outrider
