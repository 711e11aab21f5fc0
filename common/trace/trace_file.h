// A file that cannot grow beyond a bound: when it has half of it, it takes the name PATH.1 (in
// place of the PATH.1 before) and begins anew. Lines are whole in each of the two.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

class TraceFile {
 public:
  // Goes on behind what is there. `max_bytes`: of the two files together.
  static Result<std::unique_ptr<TraceFile>> Open(const std::string& path, uint64_t max_bytes);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // With its end of line. An error leaves no part of it behind; the next one may go well.
  Status Append(std::string line);

 private:
  TraceFile(std::string path, uint64_t max_bytes)
      : path_(std::move(path)), bytes_of_each_(max_bytes / 2) {}
  Status Reopen();

  const std::string path_;
  const uint64_t bytes_of_each_;
  int file_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace outrider
