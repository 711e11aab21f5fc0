// The one implementation of Model: a decoder that runs the description of its layers, written once
// against Backend, with its paged KV cache. All layers share the cache's pages, whatever their
// window: pages outside a window are not dropped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "common/backend/backend.h"
#include "common/backend/communicator.h"
#include "common/base/status.h"
#include "common/model/followers.h"
#include "common/model/model.h"
#include "common/model/shard.h"
#include "common/model/weights.h"

namespace outrider {

struct ModelOptions {
  WeightType weights = WeightType::kBf16;
  KvType kv = KvType::kF32;  // kF16 requires f16 weights
  // Size of the KV cache: kv_pages if above 0; otherwise, with a memory_fraction, what is left of
  // this fraction of the device's memory (if the backend knows that); otherwise kv_bytes.
  double memory_fraction = 0;
  int64_t kv_bytes = int64_t{256} << 20;
  int kv_pages = 0;
  // Host memory that other models of the process may still use.
  int64_t promised_bytes = 0;
  int page_tokens = 16;
  // Rows of the largest batch. The workspace grows with it, above all by vocab_size floats per row.
  int max_batch_tokens = 512;
  bool fp8_activations = false;  // whether the backend needs memory to round them
};

// What makes a model the leading one of several ranks. By default it is the only one.
// Members are declared in the order in which each may outlive the next: the others are told to end,
// then all leave their group together.
struct LeadingRank {
  Shard shard;
  std::shared_ptr<void> processes;             // of the other ranks
  std::unique_ptr<Communicator> communicator;  // null: there are no others
  std::unique_ptr<Followers> followers;
};

// Loads an HF directory (config.json, *.safetensors) and allocates all the memory that the model
// will ever use. kNotFound, kInvalidArgument, kUnimplemented or kDataLoss for the directory's
// content, kInvalidArgument for the options, kResourceExhausted when out of memory.
Result<std::unique_ptr<Model>> LoadModel(const std::filesystem::path& directory,
                                         std::unique_ptr<Backend> backend,
                                         const ModelOptions& options,
                                         const LoadProgress& progress = {});

// The steps of LoadModel, which several ranks take together.

struct LoadedPart {
  ModelConfig config;  // of the whole model
  Weights weights;     // of the rank
};
// Reads config.json and a rank's weights. Errors as LoadModel, and those of CheckRanks.
Result<LoadedPart> LoadPart(const std::filesystem::path& directory, Backend* backend,
                            const ModelOptions& options, const Shard& shard,
                            const LoadProgress& progress = {});
// Pages of the KV cache that a rank has room for beside its weights. Errors of PlanKvPages.
Result<int> PlanPages(const ModelConfig& config, Backend& backend, const ModelOptions& options,
                      const Shard& shard);
// The model with weights that are already on `backend`, as LoadWeights returns them for `config`.
Result<std::unique_ptr<Model>> BuildModel(ModelConfig config, Weights weights,
                                          std::unique_ptr<Backend> backend,
                                          const ModelOptions& options, LeadingRank ranks = {});

}  // namespace outrider
