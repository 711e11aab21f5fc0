#include "common/ranks/follow.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/model/layer_stack.h"
#include "common/ranks/pass_message.h"
#include "common/ranks/shared_communicator.h"
#include "common/ranks/start_messages.h"

namespace outrider {
namespace {

// A rank's part of the model, ready to run.
class Part {
 public:
  Part(const Shard& shard, const ModelOptions& options, std::unique_ptr<Backend> backend,
       LoadedPart loaded)
      : shard_(shard),
        options_(options),
        backend_(std::move(backend)),
        config_(ShardOf(loaded.config, shard)),
        layers_(&config_, options, backend_.get(), std::move(loaded.weights)) {}

  Status Start(const RankStart& start, int region);
  void Do(RankOrder order, std::span<const int32_t> message);

 private:
  const Shard shard_;
  const ModelOptions options_;
  // Declared before everything that uses its memory, so that it is destroyed last.
  const std::unique_ptr<Backend> backend_;
  const ModelConfig config_;
  std::unique_ptr<Communicator> communicator_;
  LayerStack layers_;
};

Status Part::Start(const RankStart& start, int region) {
  DeviceOps* const device = backend_->device();
  if (device != nullptr) {
    OUTRIDER_ASSIGN(communicator_, device->JoinGroup(start.group, shard_.rank, shard_.ranks));
  } else {
    OUTRIDER_ASSIGN(communicator_,
                    SharedCommunicator::Open(region, shard_.rank, shard_.ranks,
                                             SharedFloats(config_, options_, shard_.ranks)));
  }
  layers_.Join(communicator_.get());
  // As the leading rank's cache, with the page of added rows (Transformer::ScratchPage).
  return layers_.Allocate(start.pages + (device != nullptr ? 1 : 0));
}

void Part::Do(RankOrder order, std::span<const int32_t> message) {
  if (order == RankOrder::kCopyKvSlots) return layers_.CopyKvSlots(DecodeCopies(message));
  BatchLayout batch = DecodePass(message);
  batch.windows = layers_.windows();
  if (order == RankOrder::kCapture) return layers_.Capture(batch);
  layers_.RunPass(batch);
}

// Loads what the leading rank appoints, up to the first report.
Result<std::unique_ptr<Part>> LoadAppointed(const Appointment& appointment,
                                            const std::filesystem::path& directory,
                                            const ModelOptions& options,
                                            const RankBackend& make_backend, int* pages) {
  OUTRIDER_ASSIGN(const std::string agreed, DescribeRanks(directory, options));
  if (agreed != appointment.agreed) {
    return FailedPrecondition("the leading rank has " + appointment.agreed + ", this one has " +
                              agreed);
  }
  OUTRIDER_ASSIGN(std::unique_ptr<Backend> backend, make_backend(appointment.shard.rank));
  OUTRIDER_ASSIGN(LoadedPart loaded,
                  LoadPart(directory, backend.get(), options, appointment.shard));
  OUTRIDER_ASSIGN(*pages, PlanPages(loaded.config, *backend, options, appointment.shard));
  return std::make_unique<Part>(appointment.shard, options, std::move(backend), std::move(loaded));
}

}  // namespace

size_t SharedFloats(const ModelConfig& config, const ModelOptions& options, int ranks) {
  const Shard first = {.rank = 0, .ranks = ranks};
  const int64_t widest = std::max<int64_t>(config.hidden_size, first.LogitsOf(config).count);
  return static_cast<size_t>(widest) * static_cast<size_t>(options.max_batch_tokens);
}

Status Follow(RankChannel channel, int region, const std::filesystem::path& directory,
              const ModelOptions& options, const RankBackend& make_backend) {
  std::vector<int32_t> message;
  OUTRIDER_TRY(channel.Receive(&message));
  int pages = 0;
  Result<std::unique_ptr<Part>> part =
      LoadAppointed(Appointment::Decode(message), directory, options, make_backend, &pages);
  OUTRIDER_TRY(channel.Send(RankReport{part.status(), pages}.Encode()));
  OUTRIDER_TRY(part.status());

  OUTRIDER_TRY(channel.Receive(&message));
  const Status started = (*part)->Start(RankStart::Decode(message), region);
  OUTRIDER_TRY(channel.Send(RankReport{started}.Encode()));
  OUTRIDER_TRY(started);

  // A device may read the arrays of a pass until the next one begins.
  std::array<std::vector<int32_t>, 2> messages;
  size_t next = 0;
  while (channel.Receive(&messages[next]).ok()) {
    const RankOrder order = OrderOf(messages[next]);
    (*part)->Do(order, messages[next]);
    if (order != RankOrder::kCopyKvSlots) next = 1 - next;
  }
  return Status();
}

}  // namespace outrider
