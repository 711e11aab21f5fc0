#include "common/base/available_memory.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "common/base/input_file.h"

namespace outrider {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;  // for one of the kernel's files

// Empty if there is none.
std::string Read(const std::filesystem::path& file) {
  Result<std::string> text = ReadFile(file, kMostBytes);
  return text.ok() ? *std::move(text) : std::string();
}

// The number after `key` at the start of one of the text's lines.
std::optional<int64_t> Field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(key)) continue;
    line.remove_prefix(std::min(line.find_first_not_of(' ', key.size()), line.size()));
    int64_t value = 0;
    const auto [last, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error == std::errc()) return value;
  }
  return std::nullopt;
}

// The file names of a version of control groups, and the page cache's key in memory.stat.
struct GroupFiles {
  const char *limit, *used, *active, *inactive;
};
constexpr GroupFiles kFirstVersion = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                      "total_active_file ", "total_inactive_file "};
constexpr GroupFiles kSecondVersion = {"memory.max", "memory.current", "active_file ",
                                       "inactive_file "};

// nullopt: there is no limit.
std::optional<int64_t> LeftOfGroup(const std::filesystem::path& group, const GroupFiles& files) {
  const std::optional<int64_t> limit = Field(Read(group / files.limit), "");
  const std::optional<int64_t> used = Field(Read(group / files.used), "");
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  const std::string stat = Read(group / "memory.stat");
  const int64_t cache =
      Field(stat, files.active).value_or(0) + Field(stat, files.inactive).value_or(0);
  return std::max<int64_t>(*limit - *used + cache, 0);
}

}  // namespace

int64_t AvailableMemory(const std::filesystem::path& root) {
  int64_t left = std::numeric_limits<int64_t>::max();
  const std::string machine = Read(root / "proc/meminfo");
  if (const auto kilobytes = Field(machine, "MemAvailable:"); kilobytes.has_value()) {
    left = (*kilobytes + Field(machine, "SwapFree:").value_or(0)) << 10;
  }
  // Its own group and the enclosing ones, up to the root that this process sees. A line is
  // "number:controllers:/path"; version 2 names no controllers.
  std::istringstream groups(Read(root / "proc/self/cgroup"));
  std::string line;
  while (std::getline(groups, line)) {
    const size_t first = line.find(':'), second = line.find(":/", first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_second = controllers == ",,";
    if (!is_second && controllers.find(",memory,") == std::string::npos) continue;
    const std::filesystem::path base =
        root / (is_second ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    std::filesystem::path path = line.substr(second + 2);
    for (;; path = path.parent_path()) {
      const std::optional<int64_t> of_group =
          LeftOfGroup(base / path, is_second ? kSecondVersion : kFirstVersion);
      if (of_group.has_value()) left = std::min(left, *of_group);
      if (path.empty()) break;
    }
  }
  return left;
}

}  // namespace outrider
