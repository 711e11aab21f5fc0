#include "common/ranks/leading_model.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "common/model/memory_plan.h"
#include "common/ranks/pass_message.h"
#include "common/ranks/shared_communicator.h"
#include "common/ranks/start_messages.h"

namespace outrider {
namespace {

class RemoteFollowers : public Followers {
 public:
  explicit RemoteFollowers(std::vector<RankChannel> channels) : channels_(std::move(channels)) {}

  void Run(const BatchLayout& batch) override {
    EncodePass(RankOrder::kRun, batch, &message_);
    TellAll();
  }
  void Capture(const BatchLayout& batch) override {
    EncodePass(RankOrder::kCapture, batch, &message_);
    TellAll();
  }
  void CopyKvSlots(std::span<const SlotCopy> copies) override {
    EncodeCopies(copies, &message_);
    TellAll();
  }

  int ranks() const { return static_cast<int>(channels_.size()) + 1; }
  // Sends `message(rank)` to each. An error says which rank is gone.
  template <class F>
  Status Tell(const F& message);
  // Waits for a report of each. Its errors name the rank. `pages` becomes the fewest that any has.
  Status TakeReports(int* pages);

 private:
  // A rank that is gone ends the process (RankProcesses::Watch).
  void TellAll() {
    for (RankChannel& channel : channels_) (void)channel.Send(message_);
  }

  std::vector<RankChannel> channels_;
  std::vector<int32_t> message_;
};

template <class F>
Status RemoteFollowers::Tell(const F& message) {
  for (int rank = 1; rank < ranks(); ++rank) {
    const Status sent = channels_[static_cast<size_t>(rank - 1)].Send(message(rank));
    if (!sent.ok()) return sent.Annotate("rank " + std::to_string(rank));
  }
  return Status();
}

Status RemoteFollowers::TakeReports(int* pages) {
  std::vector<int32_t> message;
  for (int rank = 1; rank < ranks(); ++rank) {
    const std::string name = "rank " + std::to_string(rank);
    const Status received = channels_[static_cast<size_t>(rank - 1)].Receive(&message);
    if (!received.ok()) return received.Annotate(name);
    const RankReport report = RankReport::Decode(message);
    if (!report.status.ok()) return report.status.Annotate(name);
    *pages = std::min(*pages, report.pages);
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<Model>> LoadLeadingModel(const std::filesystem::path& directory,
                                                std::unique_ptr<Backend> backend,
                                                ModelOptions options, OtherRanks others,
                                                const LoadProgress& progress) {
  auto own = std::make_unique<RemoteFollowers>(std::move(others.channels));
  RemoteFollowers& followers = *own;
  const Shard shard = {.rank = 0, .ranks = followers.ranks()};
  LeadingRank ranks = {.shard = shard,
                       .processes = std::move(others.processes),
                       .communicator = nullptr,
                       .followers = std::move(own)};
  OUTRIDER_ASSIGN(const std::string agreed, DescribeRanks(directory, options, *backend));
  OUTRIDER_TRY(followers.Tell([&](int rank) {
    return RankAssignment{.shard = {.rank = rank, .ranks = shard.ranks}, .agreed = agreed}.Encode();
  }));
  int none = 0;
  OUTRIDER_TRY(followers.TakeReports(&none));
  OUTRIDER_ASSIGN(LoadedPart part, LoadPart(directory, backend.get(), options, shard, progress));
  OUTRIDER_ASSIGN(int pages, PlanPages(part.config, *backend, options, shard));
  OUTRIDER_TRY(followers.TakeReports(&pages));
  options.kv_pages = pages;

  RankStart start = {.pages = pages, .group = {}};
  DeviceOps* const device = backend->device();
  if (device != nullptr) {
    OUTRIDER_TRY(device->PrepareGroup(shard.rank, shard.ranks));
    OUTRIDER_ASSIGN(start.group, device->NewGroup());
  }
  OUTRIDER_TRY(followers.Tell([&](int) { return start.Encode(); }));
  if (device != nullptr) {
    OUTRIDER_ASSIGN(ranks.communicator, device->JoinGroup(start.group, shard.rank, shard.ranks));
  } else {
    OUTRIDER_ASSIGN(ranks.communicator,
                    SharedCommunicator::Open(others.region, shard.rank, shard.ranks,
                                             ExchangedFloats(part.config, options, shard.ranks)));
  }
  OUTRIDER_TRY(followers.TakeReports(&none));
  return BuildModel(std::move(part.config), std::move(part.weights), std::move(backend), options,
                    std::move(ranks));
}

}  // namespace outrider
