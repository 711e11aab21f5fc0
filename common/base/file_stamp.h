// Detects cheaply whether a file has been written or replaced, by its inode, size and change time.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace outrider {

struct FileStamp {
  uint64_t inode = 0;
  int64_t size = -1;  // -1: it cannot be accessed
  int64_t modified_ns = 0;

  bool operator==(const FileStamp&) const = default;
};

// Follows links, so that a replaced link (as in Kubernetes secrets) counts as a change.
FileStamp StampOf(const std::string& path);

}  // namespace outrider
