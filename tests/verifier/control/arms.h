// Arms for the controller's tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "verifier/control/arm.h"

namespace outrider {

inline Arm Chain(const std::string& name, int length, const std::string& model = "m") {
  return {.name = name,
          .proposer = {.kind = Proposer::Kind::kModel, .name = model},
          .shape = Sequences(1, length)};
}

inline Arm Plain() { return {.name = "none"}; }

inline ArmSet MakeArms(std::vector<Arm> arms) {
  Result<ArmSet> set = ArmSet::Create(std::move(arms));
  EXPECT_TRUE(set.ok()) << set.status().ToString();
  return *std::move(set);
}

}  // namespace outrider
