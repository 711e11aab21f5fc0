#include "tests/chaos/chaos_report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

namespace outrider::testing {
namespace {

struct Row {
  int times = 0;
  double seconds = 0;
  int failed = 0;
  double longest_wait = 0;
  double fewest_connected = 1e9;
  double timeouts = 0;
  double plain_rounds = 0;
  double rounds = 0;
};

double LongestWait(const FaultEvent& event, const std::vector<Wait>& waits) {
  double longest = 0;
  for (const Wait& wait : waits) {
    const auto begin = wait.end - FromSeconds(wait.seconds);
    if (wait.end >= event.begin && begin <= event.end) longest = std::max(longest, wait.seconds);
  }
  return longest;
}

}  // namespace

double Quantile(const std::vector<Wait>& waits, double q) {
  if (waits.empty()) return 0;
  std::vector<double> seconds;
  for (const Wait& wait : waits) seconds.push_back(wait.seconds);
  const auto it =
      seconds.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(seconds.size() - 1));
  std::nth_element(seconds.begin(), it, seconds.end());
  return *it;
}

std::string FaultTable(const std::vector<FaultEvent>& events, const std::vector<Wait>& waits) {
  std::map<std::pair<Fault, bool>, Row> rows;
  for (const FaultEvent& event : events) {
    Row& row = rows[{event.fault, event.everywhere}];
    ++row.times;
    row.seconds += Seconds(event.end - event.begin);
    row.failed += event.failed;
    row.longest_wait = std::max(row.longest_wait, LongestWait(event, waits));
    row.fewest_connected = std::min(row.fewest_connected, event.fewest_connected);
    row.timeouts += event.timeouts;
    row.plain_rounds += event.plain_rounds;
    row.rounds += event.rounds;
  }
  std::string table =
      "fault        drafters  times  seconds  failed  longest wait ms  fewest connected  draft "
      "timeouts/s  plain rounds %\n";
  for (const auto& [key, row] : rows) {
    char line[256];
    std::snprintf(line, sizeof line, "%-12s %-8s %6d %8.1f %7d %16.0f %17.0f %17.1f %15.1f\n",
                  Name(key.first), key.second ? "all" : "one", row.times, row.seconds, row.failed,
                  1e3 * row.longest_wait, row.fewest_connected, row.timeouts / row.seconds,
                  100 * row.plain_rounds / std::max(row.rounds, 1.0));
    table += line;
  }
  return table;
}

}  // namespace outrider::testing
