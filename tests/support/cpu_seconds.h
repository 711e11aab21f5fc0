// CPU time of this thread, for costs that other work on the machine must not change.
#pragma once

#include <time.h>

#include <algorithm>
#include <limits>

namespace outrider {

// Seconds from an arbitrary start.
inline double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The seconds that `work` takes: the least of three runs.
template <class Work>
double LeastCpuSeconds(Work work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const double start = CpuSeconds();
    work();
    least = std::min(least, CpuSeconds() - start);
  }
  return least;
}

}  // namespace outrider
