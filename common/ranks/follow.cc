#include "common/ranks/follow.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "common/model/layer_stack.h"
#include "common/model/memory_plan.h"
#include "common/ranks/pass_message.h"
#include "common/ranks/shared_communicator.h"
#include "common/ranks/start_messages.h"

namespace outrider {
namespace {

// A rank's part of the model, ready to run.
class FollowingRank {
 public:
  FollowingRank(const Shard& shard, const ModelOptions& options, std::unique_ptr<Backend> backend,
                LoadedPart loaded)
      : shard_(shard),
        options_(options),
        backend_(std::move(backend)),
        config_(ShardOf(loaded.config, shard)),
        layers_(&config_, options, backend_.get(), std::move(loaded.weights)) {}

  Status Start(const RankStart& start, int region);
  void Execute(std::span<const int32_t> message);

 private:
  const Shard shard_;
  const ModelOptions options_;
  // Declared before everything that uses its memory, so that it is destroyed last.
  const std::unique_ptr<Backend> backend_;
  const ModelConfig config_;
  std::unique_ptr<Communicator> communicator_;
  LayerStack layers_;
};

Status FollowingRank::Start(const RankStart& start, int region) {
  DeviceOps* const device = backend_->device();
  if (device != nullptr) {
    OUTRIDER_ASSIGN(communicator_, device->JoinGroup(start.group, shard_.rank, shard_.ranks));
  } else {
    OUTRIDER_ASSIGN(communicator_,
                    SharedCommunicator::Open(region, shard_.rank, shard_.ranks,
                                             ExchangedFloats(config_, options_, shard_.ranks)));
  }
  layers_.Join(communicator_.get());
  // As the leading rank's cache, with the page of added rows (Transformer::ScratchPage).
  return layers_.Allocate(start.pages + (device != nullptr ? 1 : 0));
}

void FollowingRank::Execute(std::span<const int32_t> message) {
  const RankOrder order = OrderOf(message);
  if (order == RankOrder::kCopyKvSlots) return layers_.CopyKvSlots(DecodeCopies(message));
  BatchLayout batch = DecodePass(message);
  batch.windows = layers_.windows();
  if (order == RankOrder::kCapture) {
    layers_.Capture(batch);
  } else {
    layers_.RunPass(batch);
  }
  // A device reads the message's arrays until then, and what it has staged is free again.
  backend_->Wait();
}

// From the assignment to the last report; an error is not reported yet.
Result<std::unique_ptr<FollowingRank>> Start(RankChannel& channel, int region,
                                             const std::filesystem::path& directory,
                                             const ModelOptions& options,
                                             const RankBackend& make_backend) {
  std::vector<int32_t> message;
  OUTRIDER_TRY(channel.Receive(&message));
  const RankAssignment assignment = RankAssignment::Decode(message);
  const Shard& shard = assignment.shard;
  OUTRIDER_ASSIGN(std::unique_ptr<Backend> backend, make_backend(shard.rank));
  OUTRIDER_ASSIGN(const std::string agreed, DescribeRanks(directory, options, *backend));
  if (agreed != assignment.agreed) {
    return FailedPrecondition("the leading rank has " + assignment.agreed + ", this one has " +
                              agreed);
  }
  OUTRIDER_TRY(channel.Send(RankReport().Encode()));

  OUTRIDER_ASSIGN(LoadedPart loaded, LoadPart(directory, backend.get(), options, shard));
  OUTRIDER_ASSIGN(const int pages, PlanPages(loaded.config, *backend, options, shard));
  if (DeviceOps* const device = backend->device(); device != nullptr) {
    OUTRIDER_TRY(device->PrepareGroup(shard.rank, shard.ranks));
  }
  auto rank =
      std::make_unique<FollowingRank>(shard, options, std::move(backend), std::move(loaded));
  OUTRIDER_TRY(channel.Send(RankReport{Status(), pages}.Encode()));

  OUTRIDER_TRY(channel.Receive(&message));
  OUTRIDER_TRY(rank->Start(RankStart::Decode(message), region));
  OUTRIDER_TRY(channel.Send(RankReport().Encode()));
  return rank;
}

}  // namespace

void Follow(RankChannel channel, int region, const std::filesystem::path& directory,
            const ModelOptions& options, const RankBackend& make_backend) {
  std::vector<int32_t> message;
  const Result<std::unique_ptr<FollowingRank>> rank =
      Start(channel, region, directory, options, make_backend);
  if (!rank.ok()) (void)channel.Send(RankReport{rank.status()}.Encode());
  // Until the channel is closed, also after an error: a process that ends before counts as lost.
  while (channel.Receive(&message).ok()) {
    if (rank.ok()) (*rank)->Execute(message);
  }
}

}  // namespace outrider
