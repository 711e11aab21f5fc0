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

// What happens between the assignment and the last report. The leading rank is told about each
// step, and about the error that ends them; `told` is set if it was.
class Startup {
 public:
  Startup(RankChannel* channel, const std::filesystem::path& directory, const ModelOptions& options,
          const RankBackend& make_backend)
      : channel_(*channel), directory_(directory), options_(options), make_backend_(make_backend) {}

  Result<std::unique_ptr<FollowingRank>> Run(int region) {
    Result<std::unique_ptr<FollowingRank>> rank = Steps(region);
    if (!rank.ok()) told_ = channel_.Send(RankReport{rank.status()}.Encode()).ok();
    return rank;
  }
  bool told() const { return told_; }

 private:
  Result<std::unique_ptr<FollowingRank>> Steps(int region);

  RankChannel& channel_;
  const std::filesystem::path& directory_;
  const ModelOptions& options_;
  const RankBackend& make_backend_;
  bool told_ = false;
};

Result<std::unique_ptr<FollowingRank>> Startup::Steps(int region) {
  std::vector<int32_t> message;
  OUTRIDER_TRY(channel_.Receive(&message));
  const RankAssignment assignment = RankAssignment::Decode(message);
  const Shard& shard = assignment.shard;
  OUTRIDER_ASSIGN(const std::string agreed, DescribeRanks(directory_, options_));
  if (agreed != assignment.agreed) {
    return FailedPrecondition("the leading rank has " + assignment.agreed + ", this one has " +
                              agreed);
  }
  OUTRIDER_ASSIGN(std::unique_ptr<Backend> backend, make_backend_(shard.rank));
  OUTRIDER_TRY(channel_.Send(RankReport().Encode()));

  OUTRIDER_ASSIGN(LoadedPart loaded, LoadPart(directory_, backend.get(), options_, shard));
  OUTRIDER_ASSIGN(const int pages, PlanPages(loaded.config, *backend, options_, shard));
  auto rank =
      std::make_unique<FollowingRank>(shard, options_, std::move(backend), std::move(loaded));
  OUTRIDER_TRY(channel_.Send(RankReport{Status(), pages}.Encode()));

  OUTRIDER_TRY(channel_.Receive(&message));
  OUTRIDER_TRY(rank->Start(RankStart::Decode(message), region));
  OUTRIDER_TRY(channel_.Send(RankReport().Encode()));
  return rank;
}

}  // namespace

Status Follow(RankChannel channel, int region, const std::filesystem::path& directory,
              const ModelOptions& options, const RankBackend& make_backend) {
  std::vector<int32_t> message;
  Startup startup(&channel, directory, options, make_backend);
  const Result<std::unique_ptr<FollowingRank>> rank = startup.Run(region);
  if (!rank.ok()) {
    // A process that ends before its channel counts as lost.
    while (startup.told() && channel.Receive(&message).ok()) {
    }
    return startup.told() ? Status() : rank.status();
  }
  while (channel.Receive(&message).ok()) (*rank)->Execute(message);
  return Status();
}

}  // namespace outrider
