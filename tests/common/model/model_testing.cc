#include "tests/common/model/model_testing.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>

namespace outrider {

TempDirectory::TempDirectory() {
  std::string name = ::testing::TempDir() + "/outrider-XXXXXX";
  path_ = mkdtemp(name.data());
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TempDirectory::Write(const std::string& name, std::string_view content) const {
  std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
}

std::string TempDirectory::Read(const std::string& name) const {
  std::ifstream file(path_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::unique_ptr<Model> LoadTestModel(const std::filesystem::path& directory,
                                     const ModelOptions& options) {
  Result<std::unique_ptr<Backend>> backend = CreateTestBackend();
  if (!backend.ok()) {
    ADD_FAILURE() << backend.status().ToString();
    return nullptr;
  }
  Result<std::unique_ptr<Model>> model = LoadModel(directory, std::move(*backend), options);
  if (!model.ok()) {
    ADD_FAILURE() << model.status().ToString();
    return nullptr;
  }
  return std::move(*model);
}

std::unique_ptr<Model> MakeModel(const CheckpointOptions& checkpoint, const ModelOptions& options) {
  const TempDirectory directory;
  const Status made = MakeCheckpoint(directory.path(), checkpoint);
  EXPECT_TRUE(made.ok()) << made.ToString();
  return LoadTestModel(directory.path(), options);
}

std::vector<TokenId> RandomTokens(int count, int vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

Rows Extend(Model& model, SequenceId sequence, std::span<const TokenId> tokens,
            std::span<const int32_t> parents) {
  std::vector<int32_t> all(tokens.size());
  std::iota(all.begin(), all.end(), 0);
  const ForwardSequence share = {sequence, tokens, parents, all};
  ForwardOutput output;
  const Status status = model.Forward({&share, 1}, /*want_hidden=*/false, &output);
  EXPECT_TRUE(status.ok()) << status.ToString();
  Rows rows;
  const auto vocabulary = static_cast<size_t>(model.config().vocab_size);
  for (size_t i = 0; i < static_cast<size_t>(output.rows); ++i) {
    rows.emplace_back(output.logits + i * vocabulary, output.logits + (i + 1) * vocabulary);
  }
  return rows;
}

Rows RunFresh(Model& model, std::span<const TokenId> tokens) {
  const SequenceId sequence = model.NewSequence();
  Rows rows = Extend(model, sequence, tokens);
  model.Release(sequence);
  return rows;
}

double RelativeError(std::span<const float> a, std::span<const double> b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    // A NaN must not slip through max().
    if (!std::isfinite(a[i])) return HUGE_VAL;
    difference = std::max(difference, std::fabs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::fabs(b[i]));
  }
  return difference / largest;
}

bool BitEqual(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace outrider
