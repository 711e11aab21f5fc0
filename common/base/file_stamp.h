// Tells cheaply whether a file has been written or replaced: its inode, size and time of change.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace outrider {

struct FileStamp {
  uint64_t inode = 0;
  int64_t size = -1;  // -1: it cannot be looked at
  int64_t modified_ns = 0;

  bool operator==(const FileStamp&) const = default;
};

// Follows links, so that a swapped link (as Kubernetes updates secrets) is a change too.
FileStamp StampOf(const std::string& path);

}  // namespace outrider
