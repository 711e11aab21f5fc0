// Compares docs/metrics.md with the code: every metric is on the page, and the page lists no other.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "common/metrics/process_metrics.h"
#include "common/metrics/registry.h"
#include "drafter/metrics.h"
#include "verifier/engine/metrics.h"
#include "verifier/engine/vllm_names.h"
#include "verifier/http/metrics.h"

namespace outrider {
namespace {

// The names in the first column of the page's tables that begin with `prefix`.
std::set<std::string> DocumentedNames(const std::string& prefix = "outrider_") {
  std::ifstream page(OUTRIDER_SOURCE_DIR "/docs/metrics.md");
  EXPECT_TRUE(page.is_open());
  const std::string start = "| `" + prefix;
  std::set<std::string> names;
  for (std::string line; std::getline(page, line);) {
    if (line.compare(0, start.size(), start) != 0) continue;
    const size_t from = 3;
    names.insert(line.substr(from, line.find_first_of("`{", from) - from));
  }
  return names;
}

std::vector<std::string> Without(const std::set<std::string>& names,
                                 const std::set<std::string>& others) {
  std::vector<std::string> rest;
  std::ranges::set_difference(names, others, std::back_inserter(rest));
  return rest;
}

// Says which names differ, not what all of them are.
void ExpectListed(const std::set<std::string>& documented, const std::set<std::string>& names) {
  EXPECT_THAT(Without(names, documented), ::testing::IsEmpty()) << "no row in docs/metrics.md";
  EXPECT_THAT(Without(documented, names), ::testing::IsEmpty()) << "no such metric";
}

TEST(MetricsPage, ListsEveryMetricAndNoOther) {
  MetricsRegistry registry;
  VerifierMetrics verifier(registry, {"plain"});
  ExportConfig(registry, {.page_tokens = 16, .pages = 100});
  DrafterMetrics drafter(registry);
  HttpMetrics(registry).CountRequest("health", 200);
  AddProcessMetrics(registry);
  std::set<std::string> documented = DocumentedNames();
  documented.merge(DocumentedNames("process_"));
  const auto names = registry.Names();
  ExpectListed(documented, {names.begin(), names.end()});
}

TEST(MetricsPage, ListsEveryVllmName) {
  MetricsRegistry registry;
  VerifierMetrics verifier(registry, {"plain"});
  ExportConfig(registry, {.page_tokens = 16, .pages = 100});
  std::set<std::string> theirs;
  for (const auto& [name, alias] : VllmAliases().names) {
    EXPECT_THAT(registry.Names(), ::testing::Contains(name));
    theirs.insert(alias);
  }
  ExpectListed(DocumentedNames("vllm:"), theirs);
}

TEST(VerifierMetrics, CountsAcceptedPositionsFromFirst) {
  MetricsRegistry registry;
  VerifierMetrics metrics(registry, {"plain"});
  metrics.CountAcceptedPositions(0);
  metrics.CountAcceptedPositions(2);
  metrics.CountAcceptedPositions(1000);  // beyond the last position that is counted
  const auto position = [&](const char* label) {
    return registry
        .MakeCounter("outrider_spec_decode_num_accepted_tokens_per_pos_total", "",
                     {{"position", label}})
        .value();
  };
  EXPECT_EQ(position("0"), 2);
  EXPECT_EQ(position("1"), 2);
  EXPECT_EQ(position("2"), 1);
}

}  // namespace
}  // namespace outrider
