#include "common/base/file_stamp.h"

#include <sys/stat.h>

namespace outrider {

FileStamp StampOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  constexpr int64_t kNsPerSecond = 1000000000;
  return {.inode = info.st_ino,
          .size = info.st_size,
          .modified_ns = info.st_mtim.tv_sec * kNsPerSecond + info.st_mtim.tv_nsec};
}

}  // namespace outrider
