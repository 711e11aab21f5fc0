#include "common/metrics/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>

#include "common/base/input_file.h"
#include "common/base/log.h"
#include "common/base/version.h"

namespace outrider {
namespace {

// A file of /proc/self; "" if it cannot be read.
std::string ReadProc(const std::string& name) {
  constexpr size_t kMaxBytes = 4096;
  const Result<std::string> text = ReadFile("/proc/self/" + name, kMaxBytes);
  return text.ok() ? *text : "";
}

double CpuSeconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return NAN;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The `index`-th number of /proc/self/statm, in bytes: 0 is the virtual memory, 1 the resident one.
double MemoryBytes(int index) {
  std::istringstream statm(ReadProc("statm"));
  double pages = 0;
  for (int i = 0; i <= index; ++i) statm >> pages;
  if (!statm) return NAN;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double OpenFiles() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return NAN;
  int entries = 0;
  while (readdir(folder) != nullptr) ++entries;
  closedir(folder);
  return entries - 3;  // ".", ".." and the folder itself
}

double MaxFiles() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return NAN;
  return static_cast<double>(limit.rlim_cur);
}

// Seconds since the epoch: the time of the boot, and the start after it (the 22nd field of
// /proc/self/stat, counted from 1, in clock ticks).
double StartTime() {
  const std::string line = ReadProc("stat");
  const size_t name_end = line.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return NAN;
  constexpr int kAfterName = 20;  // the start is the 20th field after the name
  size_t pos = name_end;
  for (int i = 0; i < kAfterName && pos != std::string::npos; ++i) pos = line.find(' ', pos + 1);
  if (pos == std::string::npos) return NAN;
  const double ticks = std::strtod(line.c_str() + pos, nullptr);
  timespec wall{}, since_boot{};
  clock_gettime(CLOCK_REALTIME, &wall);
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const auto seconds = [](const timespec& time) {
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  return seconds(wall) - seconds(since_boot) + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

void AddProcessMetrics(MetricsRegistry& registry) {
  registry.AddCounter("process_cpu_seconds_total", "User and system CPU time of the process",
                      CpuSeconds);
  registry.AddGauge("process_resident_memory_bytes", "Resident memory of the process",
                    [] { return MemoryBytes(1); });
  registry.AddGauge("process_virtual_memory_bytes", "Virtual memory of the process",
                    [] { return MemoryBytes(0); });
  registry.AddGauge("process_open_fds", "Open file descriptors", OpenFiles);
  registry.AddGauge("process_max_fds", "Most file descriptors that may be open", MaxFiles);
  registry.AddGauge("process_start_time_seconds", "Start of the process, since the epoch",
                    [start = StartTime()] { return start; });
  registry.AddGauge("outrider_build_info", "Always 1; the build is in the labels",
                    [] { return 1.0; }, {{"version", kVersion}, {"compiler", __VERSION__}});
  registry.AddCounter("outrider_log_lines_lost_total",
                      "Log lines lost because the reader of stderr was too slow",
                      [] { return static_cast<double>(LogLinesLost()); });
}

}  // namespace outrider
