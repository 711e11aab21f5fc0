// The engine's tests are built twice: once with a model that verifies nothing (no_device.cc), once
// with a device, the CUDA kernels' emulation, that decides every round (emulated_device.cc).
#pragma once

#include <cstdint>

#include "tests/support/fake_model.h"

namespace outrider::testing {

// Gives the model the device of this program, if it has one.
void GiveDevice(FakeModel& model);

// Of a test of a law: the emulation takes its time.
uint64_t GenerationsOfALaw();

}  // namespace outrider::testing
