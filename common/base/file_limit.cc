#include "common/base/file_limit.h"

#include <sys/resource.h>

namespace outrider {

void RaiseFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

int64_t FileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  return static_cast<int64_t>(files.rlim_cur);
}

}  // namespace outrider
