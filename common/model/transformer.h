// The one implementation of Model: a decoder that runs the description of its layers, written once
// against Backend, with its paged KV cache. All layers share the cache's pages, whatever they see
// of it: no window drops a page.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "common/backend/backend.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/model/weights.h"

namespace outrider {

struct ModelOptions {
  WeightType weights = WeightType::kBf16;
  KvType kv = KvType::kF32;  // kF16 goes with weights in f16
  // Size of the KV cache. kv_pages counts if it is above 0; else, with a memory_fraction, what the
  // device has left of this fraction of its memory (where a backend knows that); else kv_bytes.
  double memory_fraction = 0;
  int64_t kv_bytes = int64_t{256} << 20;
  int kv_pages = 0;
  // Of the host's memory: what other models of the process may still come to use of it.
  int64_t promised_bytes = 0;
  int page_tokens = 16;
  // Rows of the largest batch. The workspace grows with it, by vocab_size floats a row above all.
  int max_batch_tokens = 512;
};

// Loads an HF directory (config.json, *.safetensors) and allocates everything that the model will
// ever use. kNotFound, kInvalidArgument, kUnimplemented or kDataLoss for the directory's content,
// kInvalidArgument for the options, kResourceExhausted when memory is out.
Result<std::unique_ptr<Model>> LoadModel(const std::filesystem::path& directory,
                                         std::unique_ptr<Backend> backend,
                                         const ModelOptions& options,
                                         const LoadProgress& progress = {});

// The same of weights that are on `backend` already, as LoadWeights gives them for `config`.
Result<std::unique_ptr<Model>> BuildModel(ModelConfig config, Weights weights,
                                          std::unique_ptr<Backend> backend,
                                          const ModelOptions& options);

}  // namespace outrider
