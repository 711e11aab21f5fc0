#include "tests/drafter/propose/loop_device.h"

namespace outrider::testing {

void GiveDevice(FakeModel& /*model*/) {}

uint32_t WeightTolerance() { return 0; }

uint32_t RoundsOfALaw() { return 20000; }

}  // namespace outrider::testing
