#include "tests/verifier/engine/engine_device.h"

namespace outrider::testing {

void GiveDevice(FakeModel& /*model*/) {}

uint64_t GenerationsOfADistribution() { return 20000; }

}  // namespace outrider::testing
