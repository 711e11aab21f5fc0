// Pairs of toy models for the tests of `outrider simulate`, and its report as JSON.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "simulate/simulate.h"

namespace outrider::testing {

using Json = nlohmann::json;
using Row = std::vector<double>;

// Models whose row does not depend on the previous tokens.
inline Json IidPair(const Row& target, const Row& draft) {
  const std::vector<Row> targets(target.size(), target), drafts(draft.size(), draft);
  return {{"vocab", target.size()},
          {"target", {{"initial", target}, {"transition", targets}}},
          {"draft", {{"initial", draft}, {"transition", drafts}}}};
}

// Section 2 of Sun et al. 2025.
inline Json TwoTokens() { return IidPair({1.0 / 3, 2.0 / 3}, {2.0 / 3, 1.0 / 3}); }

// A first-order chain that reveals the usual mistakes.
inline Json FourTokens() {
  const std::vector<Row> target = {{1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6},
                                   {0.5, 0.3, 0.1, 0.1},
                                   {0.125, 0.125, 0.25, 0.5},
                                   {0.4, 0.2, 0.2, 0.2}};
  const std::vector<Row> draft = {{1.0 / 3, 1.0 / 6, 1.0 / 6, 1.0 / 3},
                                  {0.1, 0.1, 0.3, 0.5},
                                  {0.5, 0.25, 0.125, 0.125},
                                  {0.2, 0.4, 0.2, 0.2}};
  return {{"vocab", 4},
          {"target", {{"initial", {0.5, 0.25, 0.125, 0.125}}, {"transition", target}}},
          {"draft", {{"initial", {0.25, 0.5, 0.125, 0.125}}, {"transition", draft}}}};
}

// A first-order chain of three tokens, for several drafts.
inline Json ThreeTokens() {
  const std::vector<Row> target = {{0.3, 0.3, 0.4}, {0.4, 0.1, 0.5}, {0.25, 0.5, 0.25}};
  const std::vector<Row> draft = {{0.6, 0.3, 0.1}, {0.2, 0.5, 0.3}, {0.1, 0.1, 0.8}};
  return {{"vocab", 3},
          {"target", {{"initial", {0.2, 0.3, 0.5}}, {"transition", target}}},
          {"draft", {{"initial", {0.5, 0.3, 0.2}}, {"transition", draft}}}};
}

inline Json ReportOf(const Json& pair, const SimulateOptions& options) {
  const Result<std::string> report = Simulate(pair.dump(), options);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  return report.ok() ? Json::parse(*report) : Json();
}

}  // namespace outrider::testing
