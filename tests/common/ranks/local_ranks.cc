#include "tests/common/ranks/local_ranks.h"

#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/model/config.h"
#include "common/model/memory_plan.h"
#include "common/ranks/leading_model.h"
#include "common/ranks/shared_communicator.h"

namespace outrider {
namespace {

// Joins the followers, which end when their channels are closed.
struct FollowerThreads {
  std::vector<std::thread> threads;
  FileDescriptor region;

  FollowerThreads() = default;
  FollowerThreads(const FollowerThreads&) = delete;
  FollowerThreads& operator=(const FollowerThreads&) = delete;
  ~FollowerThreads() {
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace

Result<std::unique_ptr<Model>> LoadOnRanks(
    const std::filesystem::path& directory, int ranks, const ModelOptions& options,
    const RankBackend& make_backend, const std::function<void(ModelOptions* options)>& change) {
  OUTRIDER_ASSIGN(const ModelConfig config, LoadModelConfig(directory));
  OUTRIDER_TRY(CheckRanks(config, ranks));
  const auto followers = std::make_shared<FollowerThreads>();
  OUTRIDER_ASSIGN(followers->region,
                  SharedCommunicator::CreateRegion(ranks, ExchangedFloats(config, options, ranks)));
  ModelOptions theirs = options;
  if (change != nullptr) change(&theirs);
  OtherRanks others = {.channels = {}, .processes = followers, .region = followers->region.get()};
  for (int rank = 1; rank < ranks; ++rank) {
    OUTRIDER_ASSIGN(auto ends, RankChannel::Connect());
    others.channels.push_back(std::move(ends.first));
    followers->threads.emplace_back(
        [=, region = followers->region.get(), channel = std::move(ends.second)]() mutable {
          Follow(std::move(channel), region, directory, theirs, make_backend);
        });
  }
  OUTRIDER_ASSIGN(std::unique_ptr<Backend> backend, make_backend(0));
  return LoadLeadingModel(directory, std::move(backend), options, std::move(others));
}

}  // namespace outrider
