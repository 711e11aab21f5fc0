#include <memory>

#include "common/backend/cuda/device_rules.h"
#include "tests/verifier/engine/engine_device.h"

namespace outrider::testing {
namespace {

struct Device {
  Stream stream;
  DeviceRules rules{&stream};
};

}  // namespace

void GiveDevice(FakeModel& model) {
  const auto device = std::make_shared<Device>();
  model.set_verify([device](const VerifyBatch& batch, const LogitRows& rows) {
    device->rules.Verify(batch, rows);
    return device->rules.Verdicts();
  });
}

uint64_t GenerationsOfALaw() { return 4000; }

}  // namespace outrider::testing
