// The scenario of `outrider simulate control`: arms with given acceptance and costs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "verifier/control/arm.h"

namespace outrider {

// A number that may change during a request: (from_round, value), counting rounds from 0.
class Steps {
 public:
  Steps() = default;
  explicit Steps(double value) : steps_{{0, value}} {}
  // REQUIRES: the first from_round is 0, and they are strictly increasing.
  explicit Steps(std::vector<std::pair<int, double>> steps) : steps_(std::move(steps)) {}
  double At(int round) const;
  friend bool operator==(const Steps&, const Steps&) = default;

 private:
  std::vector<std::pair<int, double>> steps_ = {{0, 0.0}};
};

struct ScenarioArm {
  std::string name;
  bool plain = false;
  Steps acceptance;  // of a draft token, given that those before it are accepted
  int length = 0;
  Steps draft_ms;  // per draft token
};

struct ControlScenario {
  std::vector<ScenarioArm> arms;
  Steps base_ms;
  Steps per_row_ms;
  Steps rtt_ms;
  Steps sessions{1};  // sharing a step, all with the same plan
  int tokens = 0;     // per request
  int requests = 1;
  bool shared = true;
};

// JSON:
//   arms       [1..64] {"name", "kind": "chain" or "none", "acceptance", "length": 0..64,
//              "draft_ms"}; a "none" arm only needs its name
//   verify_ms  {"base", "per_row"}
//   rtt_ms, tokens (1 to 2^20), requests (1 to 2^20), shared (a boolean)
//   sessions   1 if left out
// acceptance (0 to 1), draft_ms, base, per_row, rtt_ms and sessions are a number or [[from_round,
// number], ..], the first from round 0. kInvalidArgument names the member that is invalid, missing
// or unknown.
Result<ControlScenario> ParseControlScenario(std::string_view json);

// The plans of the scenario's arms. Arms with the same acceptance and draft_ms belong to one
// drafter, with several lengths.
std::vector<Arm> ArmsOf(const ControlScenario& scenario);

}  // namespace outrider
