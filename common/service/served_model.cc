#include "common/service/served_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>

#include "common/backend/create_backend.h"
#include "common/base/clock.h"
#include "common/base/file_descriptor.h"
#include "common/base/log.h"
#include "common/model/memory_plan.h"
#include "common/model/transformer.h"
#include "common/model/warm_up.h"
#include "common/ranks/follow.h"
#include "common/ranks/leading_model.h"
#include "common/ranks/shared_communicator.h"

namespace outrider {
namespace {

constexpr int kPageTokens = 16;
constexpr auto kTellProgressEach = std::chrono::seconds(5);

bool OnCpu(const ServiceOptions& options) { return options.device == "cpu"; }

// 0: as many as the device has room for.
int KvPages(const ServiceOptions& options, const ModelConfig& config) {
  if (options.kv_tokens == 0 && !OnCpu(options)) return 0;
  constexpr int64_t kDefaultMaxTokens = 262144;
  const int64_t tokens =
      options.kv_tokens > 0
          ? options.kv_tokens
          : std::min(kDefaultMaxTokens, int64_t{64} * config.max_position_embeddings);
  return static_cast<int>((tokens + kPageTokens - 1) / kPageTokens);
}

// Unless the options say otherwise: f32 on the CPU, whose attention is fastest with that; on a GPU,
// where half the bytes count, as wide as the weights.
KvType KvTypeOf(const ServiceOptions& options) {
  if (options.kv_cache.has_value()) return *options.kv_cache;
  if (OnCpu(options)) return KvType::kF32;
  switch (options.weights) {
    case WeightType::kF32: return KvType::kF32;
    case WeightType::kF16: return KvType::kF16;
    case WeightType::kBf16: return KvType::kBf16;
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kW4A16:
    case WeightType::kFp8:
    case WeightType::kMxfp4: break;
  }
  return KvType::kBf16;
}

int RanksOf(const ServiceOptions& options) {
  return std::max(1, static_cast<int>(options.devices.size()));
}

// The backend of one rank: its device, and its share of the cores.
Result<std::unique_ptr<Backend>> MakeBackend(const ServiceOptions& options, int rank) {
  CpuBackendOptions cpu = {.threads = options.threads,
                           .cores = options.cores,
                           .bf16_activations = options.bf16_activations,
                           .int8_activations = options.int8_activations};
  if (RanksOf(options) > 1 && !cpu.cores.empty()) {
    const auto first = options.cores.begin() + ptrdiff_t{rank} * options.threads;
    cpu.cores.assign(first, first + options.threads);
  }
  const std::string& device =
      options.devices.empty() ? options.device : options.devices[static_cast<size_t>(rank)];
  return CreateBackend(device, cpu,
                       {.graphs = options.cuda_graphs, .fp8_activations = options.fp8_activations});
}

ModelOptions ModelOptionsOf(const ServiceOptions& options, const ModelConfig& config,
                            int max_batch_tokens, int64_t promised_bytes) {
  return {.weights = options.weights,
          .kv = KvTypeOf(options),
          .memory_fraction = options.memory_fraction,
          .kv_pages = KvPages(options, config),
          .promised_bytes = promised_bytes,
          .page_tokens = kPageTokens,
          .max_batch_tokens = max_batch_tokens,
          .fp8_activations = options.fp8_activations};
}

// A rank that is gone leaves the others waiting for it, in the middle of a pass.
void EndBecauseOfRank(const ServiceOptions& options, int rank, const std::string& how) {
  Log(LogLevel::kError, "the process of a device has ended; so does the service",
      {{"rank", rank}, {"device", options.devices[static_cast<size_t>(rank)]}, {"how", how}});
  std::_Exit(1);
}

// CheckRanks, whose error says how many devices would do.
Status CheckDevices(const ModelConfig& config, int ranks) {
  Status status = CheckRanks(config, ranks);
  if (status.ok()) return status;
  std::string possible = "1";
  for (int other = 2; other <= kMaxRanks; ++other) {
    if (CheckRanks(config, other).ok()) possible += ", " + std::to_string(other);
  }
  return Status(status.code(), "--devices: " + status.message() +
                                   "; this model runs on these numbers: " + possible);
}

// The model divided among options.devices, each but the first with a process of its own.
Result<std::unique_ptr<Model>> LoadDivided(const ServiceOptions& options, const ModelConfig& config,
                                           std::unique_ptr<Backend> backend,
                                           const ModelOptions& model_options,
                                           const LoadProgress& progress) {
  const int ranks = RanksOf(options);
  OUTRIDER_TRY(CheckDevices(config, ranks));
  FileDescriptor region;
  if (OnCpu(options)) {
    OUTRIDER_ASSIGN(region, SharedCommunicator::CreateRegion(
                                ranks, ExchangedFloats(config, model_options, ranks)));
  }
  // NCCL opens ports for the other processes, to anybody: on this machine alone.
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);  // unless it is set
  OUTRIDER_ASSIGN(const std::shared_ptr<RankProcesses> processes,
                  RankProcesses::Start(options.command, ranks, region.get()));
  processes->Watch(
      [&options](int rank, const std::string& how) { EndBecauseOfRank(options, rank, how); });
  return LoadLeadingModel(
      options.model, std::move(backend), model_options,
      {.channels = processes->TakeChannels(), .processes = processes, .region = region.get()},
      progress);
}

}  // namespace

Result<std::unique_ptr<Model>> LoadServedModel(const ServiceOptions& options, int max_batch_tokens,
                                               const std::stop_token& stop) {
  return LoadSecondModel(options, max_batch_tokens, stop, /*promised_bytes=*/0);
}

Result<std::unique_ptr<Model>> LoadSecondModel(const ServiceOptions& options, int max_batch_tokens,
                                               const std::stop_token& stop,
                                               int64_t promised_bytes) {
  const std::stop_callback at_once(stop, [] {
    Log(LogLevel::kInfo, "stopped before the model was loaded");
    std::_Exit(0);
  });
  OUTRIDER_ASSIGN(const ModelConfig config, LoadModelConfig(options.model));
  OUTRIDER_ASSIGN(std::unique_ptr<Backend> backend, MakeBackend(options, /*rank=*/0));
  const Time start = std::chrono::steady_clock::now();
  Log(LogLevel::kInfo, "loading model",
      {{"model", options.model}, {"device", backend->Describe()}, {"devices", RanksOf(options)}});
  Time told = start;
  const auto progress = [&](int64_t done, int64_t all) {
    const Time now = std::chrono::steady_clock::now();
    if (now - told < kTellProgressEach) return;
    told = now;
    Log(LogLevel::kInfo, "loading weights",
        {{"percent", std::min<int64_t>(100, done * 100 / std::max<int64_t>(all, 1))},
         {"bytes", done},
         {"seconds", Seconds(now - start)}});
  };
  const ModelOptions model_options =
      ModelOptionsOf(options, config, max_batch_tokens, promised_bytes);
  std::unique_ptr<Model> model;
  if (RanksOf(options) > 1) {
    OUTRIDER_ASSIGN(model,
                    LoadDivided(options, config, std::move(backend), model_options, progress));
  } else {
    OUTRIDER_ASSIGN(model, LoadModel(options.model, std::move(backend), model_options, progress));
  }
  // On a CPU only memory has to be touched, and one row touches most of it.
  OUTRIDER_TRY(WarmUp(model.get(), OnCpu(options) ? 1 : max_batch_tokens));
  Log(LogLevel::kInfo, "model loaded",
      {{"architecture", config.architecture},
       {"seconds", Seconds(std::chrono::steady_clock::now() - start)},
       {"kv_tokens", model->total_pages() * model->page_tokens()},
       {"kv_cache", KvTypeName(KvTypeOf(options))}});
  return model;
}

int64_t KvBytes(const ServiceOptions& options, const Model& model) {
  if (!OnCpu(options)) return 0;
  const int ranks = RanksOf(options);
  const ModelConfig part = ShardOf(model.config(), {.rank = 0, .ranks = ranks});
  return ranks * model.total_pages() * PageBytes(part, model.page_tokens(), KvTypeOf(options));
}

Status FollowServedModel(const ServiceOptions& options, int max_batch_tokens,
                         const FollowArguments& arguments) {
  RankChannel channel(FileDescriptor(arguments.channel));
  const FileDescriptor region(arguments.region);
  OUTRIDER_ASSIGN(const ModelConfig config, LoadModelConfig(options.model));
  const auto backend = [&options](int rank) -> Result<std::unique_ptr<Backend>> {
    Result<std::unique_ptr<Backend>> made = MakeBackend(options, rank);
    if (made.ok()) return made;
    return made.status().Annotate(options.devices[static_cast<size_t>(rank)]);
  };
  Follow(std::move(channel), region.get(), options.model,
         ModelOptionsOf(options, config, max_batch_tokens, /*promised_bytes=*/0), backend);
  return Status();
}

}  // namespace outrider
