// Helpers for this folder's tests: directories that clean up, models loaded from them, and forward
// passes in one line.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/model.h"
#include "common/model/transformer.h"
#include "tests/support/checkpoint_maker.h"

namespace outrider {

// A new directory, removed with its contents at the end.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void Write(const std::string& name, std::string_view content) const;
  std::string Read(const std::string& name) const;

 private:
  std::filesystem::path path_;
};

// Exact weights and cache: the only differences are those of float arithmetic.
inline constexpr ModelOptions kExactOptions = {
    .weights = WeightType::kF32, .kv = KvType::kF32, .kv_pages = 64, .max_batch_tokens = 128};

// The backend under test: the tests of this folder are built once with the CPU's
// (cpu_test_backend.cc) and once with the CUDA backend's on the host (cuda_test_backend.cc).
Result<std::unique_ptr<Backend>> CreateTestBackend();
// Tolerance for logits with bf16 weights that the file stores exactly, relative to the largest of
// their row.
double Bf16WeightsTolerance();

// Fails the test and returns null if the model does not load.
std::unique_ptr<Model> LoadTestModel(const std::filesystem::path& directory,
                                     const ModelOptions& options = kExactOptions);
// A model of a temporary checkpoint, whose files are removed afterwards.
std::unique_ptr<Model> MakeModel(const CheckpointOptions& checkpoint,
                                 const ModelOptions& options = kExactOptions);

std::vector<TokenId> RandomTokens(int count, int vocab_size, uint64_t seed);

using Rows = std::vector<std::vector<float>>;

// Appends the tokens in one pass and returns the logits of all of them.
Rows Extend(Model& model, SequenceId sequence, std::span<const TokenId> tokens,
            std::span<const int32_t> parents = {});
// The same for a new sequence, which is released afterwards.
Rows RunFresh(Model& model, std::span<const TokenId> tokens);

// max |a - b| / max |b|.
double RelativeError(std::span<const float> a, std::span<const double> b);
bool BitEqual(std::span<const float> a, std::span<const float> b);

}  // namespace outrider
