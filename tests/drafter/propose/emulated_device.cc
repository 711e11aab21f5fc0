#include <memory>

#include "common/backend/cuda/device_picks.h"
#include "tests/drafter/propose/loop_device.h"

namespace outrider::testing {
namespace {

struct Device {
  Stream stream;
  DevicePicks picks{&stream};
};

}  // namespace

void GiveDevice(FakeModel& model) {
  const auto device = std::make_shared<Device>();
  model.set_draft([device](const DraftBatch& batch, float* rows, int vocab, int64_t* bytes) {
    device->picks.Pick(batch, rows, vocab);
    *bytes += static_cast<int64_t>(device->picks.bytes());
    return device->picks.Picked();
  });
}

uint32_t WeightTolerance() { return 1; }

}  // namespace outrider::testing
