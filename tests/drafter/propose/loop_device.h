// The loop's tests are built twice: once with all logits coming to the host (no_device.cc), once
// with a model whose device, the CUDA kernels' emulation, picks from them (emulated_device.cc).
#pragma once

#include <cstdint>

#include "tests/support/fake_model.h"

namespace outrider::testing {

// Gives the model the device of this program, if it has one.
void GiveDevice(FakeModel& model);

// By how much the weights of two laws of one row may differ, one of them from the device: its
// exponentials round otherwise.
uint32_t WeightTolerance();

}  // namespace outrider::testing
