// The loop's tests are built twice: once with all logits copied to the host (no_device.cc), once
// with a model whose device, the emulation of the CUDA kernels, picks from them
// (emulated_device.cc).
#pragma once

#include <cstdint>

#include "tests/support/fake_model.h"

namespace outrider::testing {

// Gives the model this program's device, if there is one.
void GiveDevice(FakeModel& model);

// The allowed difference between the weights of two distributions of one row, one of them from the
// device, whose exponentials round differently.
uint32_t WeightTolerance();

}  // namespace outrider::testing
