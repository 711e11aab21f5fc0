// The engine's tests are built twice: once with a model that verifies nothing (no_device.cc), once
// with a device, the emulation of the CUDA kernels, that verifies every round (emulated_device.cc).
#pragma once

#include <cstdint>

#include "tests/support/fake_model.h"

namespace outrider::testing {

// Gives the model this program's device, if there is one.
void GiveDevice(FakeModel& model);

// Generations per test of a distribution, fewer for the emulation, which is slow.
uint64_t GenerationsOfADistribution();

}  // namespace outrider::testing
