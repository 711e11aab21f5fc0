#include <memory>

#include "common/backend/cuda/device_picks.h"
#include "tests/drafter/propose/loop_device.h"

namespace outrider::testing {
namespace {

class Device final : public FakeModel::DraftDevice {
 public:
  std::span<const PickedRow> Draft(const PickBatch& batch, float* rows, int vocab) override {
    picks_.Pick(batch, rows, vocab);
    return Picked();
  }
  void BeginChains(const PickBatch& batch, float* rows, int vocab) override {
    chains_ = static_cast<size_t>(batch.size());
    picks_.BeginChains(batch, rows, vocab);
  }
  std::span<const TokenId> DrawChains(int depth) override {
    picks_.SampleDepth(depth);
    return {picks_.sampled(), chains_};  // the emulation's memory is host memory
  }
  std::span<const PickedRow> EndChains() override {
    picks_.CopyBack();
    return Picked();
  }
  int64_t bytes_to_host() const override { return bytes_; }

 private:
  std::span<const PickedRow> Picked() {
    bytes_ += static_cast<int64_t>(picks_.bytes());
    return picks_.Picked();
  }

  Stream stream_;
  DevicePicks picks_{&stream_};
  size_t chains_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

void GiveDevice(FakeModel& model) { model.set_draft_device(std::make_shared<Device>()); }

uint32_t WeightTolerance() { return 1; }

}  // namespace outrider::testing
