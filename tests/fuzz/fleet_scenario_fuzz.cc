// Any scenario of `outrider simulate fleet` is refused, or has limits that a run can afford.

#include <string>

#include "simulate/fleet/fleet_scenario.h"
#include "tests/fuzz/fuzz_input.h"

using outrider::fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Input in(data, size);
  const auto scenario = outrider::ParseFleetScenario(in.Rest(), "/nowhere");
  if (!scenario.ok()) {
    const outrider::Code code = scenario.status().code();
    // A trace may name a file that is not there.
    Require(code == outrider::Code::kInvalidArgument || code == outrider::Code::kNotFound ||
            code == outrider::Code::kPermissionDenied || code == outrider::Code::kUnavailable);
    return 0;
  }
  Require(scenario->verifiers() >= 1 && scenario->verifiers() <= outrider::kMaxFleetVerifiers);
  Require(scenario->drafters() <= outrider::kMaxFleetDrafters);
  Require(scenario->verifier.cost.Seconds(1) > 0 && scenario->drafter.cost.Seconds(1) > 0);
  Require(scenario->seconds / scenario->interval <= 10001);
  Require(scenario->warm_up <= scenario->seconds);
  return 0;
}
