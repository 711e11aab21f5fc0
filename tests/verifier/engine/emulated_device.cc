#include <memory>

#include "common/backend/cuda/device_rounds.h"
#include "tests/verifier/engine/engine_device.h"

namespace outrider::testing {
namespace {

struct Device {
  Stream stream;
  DeviceRounds rounds{&stream};
};

}  // namespace

void GiveDevice(FakeModel& model) {
  const auto device = std::make_shared<Device>();
  model.set_decide([device](const RoundBatch& batch, const LogitRows& rows) {
    device->rounds.Decide(batch, rows);
    return device->rounds.Decided();
  });
}

uint64_t GenerationsOfADistribution() { return 4000; }

}  // namespace outrider::testing
