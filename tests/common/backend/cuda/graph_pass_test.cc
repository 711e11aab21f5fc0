// Passes of the backend as graphs: what moves, what is too large, what a pass leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/emulator.h"

namespace outrider {
namespace {

constexpr int kWidth = 8;
constexpr AttentionShape kShape = {
    .num_heads = 1, .num_kv_heads = 1, .head_dim = kWidth, .page_tokens = 16};

// A batch of one chain whose ops are an embedding and a product of its rows: row r of the result is
// the token of row r.
class GraphPass : public testing::Test {
 protected:
  GraphPass() {
    std::vector<float> table(1000 * kWidth, 0.f);
    for (size_t token = 0; token < 1000; ++token) {
      table[token * kWidth] = static_cast<float>(token % 256);  // what bf16 holds
    }
    std::vector<float> eye(kWidth * kWidth, 0.f);
    for (size_t i = 0; i < kWidth; ++i) eye[i * kWidth + i] = 1.f;
    table_ = backend_->Pack({table.data(), Dtype::kF32, {1000, kWidth}}, WeightType::kF32).value();
    eye_ = backend_->Pack({eye.data(), Dtype::kF32, {kWidth, kWidth}}, WeightType::kBf16).value();
    embedded_ = backend_->Allocate(400 * kWidth * sizeof(float)).value();
    out_ = backend_->Allocate(400 * kWidth * sizeof(float)).value();
    backend_->Wait();
  }

  // The first value of each row of `out`, behind a pass of `rows` rows of which the first is
  // `first`. The sequence holds `pages` pages.
  std::vector<float> Run(int rows, TokenId first, int pages = 1) {
    const auto count = static_cast<size_t>(rows);
    tokens_.resize(count);
    std::iota(tokens_.begin(), tokens_.end(), first);
    positions_.resize(count);
    std::iota(positions_.begin(), positions_.end(), 0);
    slots_ = positions_;
    const std::vector<int32_t> row_begin = {0, rows}, context = {0}, page_begin = {0, pages};
    const std::vector<int32_t> page(static_cast<size_t>(pages), 0);
    const BatchLayout layout = {.rows = rows,
                                .sequences = 1,
                                .tokens = tokens_.data(),
                                .positions = positions_.data(),
                                .slots = slots_.data(),
                                .row_begin = row_begin.data(),
                                .context = context.data(),
                                .page_begin = page_begin.data(),
                                .pages = page.data()};
    backend_->RunPass(layout, kShape, [&] {
      ++calls_;
      backend_->Embed(*table_, tokens_.data(), rows, embedded_->floats());
      if (in_pass_) in_pass_();
      backend_->MatMul(*eye_, embedded_->floats(), rows, nullptr, false, out_->floats());
    });
    std::vector<float> values(count * kWidth), firsts;
    backend_->CopyOut(values.data(), out_->data(), values.size() * sizeof(float));
    backend_->Wait();
    for (size_t r = 0; r < count; ++r) firsts.push_back(values[r * kWidth]);
    return firsts;
  }
  static std::vector<float> Expected(int rows, TokenId first) {
    std::vector<float> values;
    for (int r = 0; r < rows; ++r) values.push_back(static_cast<float>((first + r) % 256));
    return values;
  }
  int64_t captures() const { return backend_->graph_counts().captures; }
  int64_t launches() const { return backend_->graph_counts().launches; }

  std::vector<std::string> warnings_;
  const std::unique_ptr<Backend> backend_ =
      CreateEmulatedCudaBackend({.warn = [this](const std::string& warning) {
        warnings_.push_back(warning);
      }}).value();
  std::unique_ptr<PackedMatrix> table_, eye_;
  std::unique_ptr<Buffer> embedded_, out_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_, slots_;
  std::function<void()> in_pass_;
  int calls_ = 0;
};

TEST_F(GraphPass, ReplaysReadTheArraysOfTheirOwnPass) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(Run(3, 10 * i), Expected(3, 10 * i)) << i;
    ASSERT_EQ(Run(4, 7 * i), Expected(4, 7 * i)) << i;
  }
  EXPECT_EQ(calls_, 6);
  EXPECT_EQ(captures(), 2);
  EXPECT_EQ(launches(), 16);
}

// The pinned memory that a copy still reads is not written again before somebody waits.
TEST_F(GraphPass, StreamsMayBeLate) {
  cuda_emulation::SetLate(true);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Run(5, 20 * i), Expected(5, 20 * i)) << i;
  EXPECT_EQ(launches(), 8);
  cuda_emulation::SetLate(false);
}

// The block of a pass's arrays is 1 MiB at first.
TEST_F(GraphPass, AreDroppedWhenTheirArraysMove) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  EXPECT_EQ(captures(), 1);
  ASSERT_EQ(Run(2, 50, 400'000), Expected(2, 50));
  EXPECT_EQ(captures(), 2);
  ASSERT_EQ(Run(2, 60), Expected(2, 60));
  EXPECT_EQ(captures(), 2);
  EXPECT_EQ(calls_, 4);
}

TEST_F(GraphPass, AreDroppedWhenMemoryIsTakenOrGivenBack) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  auto more = backend_->Allocate(100).value();
  ASSERT_EQ(Run(2, 9), Expected(2, 9));
  EXPECT_EQ(captures(), 2);
  more.reset();
  ASSERT_EQ(Run(2, 9), Expected(2, 9));
  EXPECT_EQ(captures(), 3);
}

TEST_F(GraphPass, LargeOnesAreNotCaptured) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(Run(257, i), Expected(257, i));
    ASSERT_EQ(Run(256, i), Expected(256, i));
  }
  EXPECT_EQ(captures(), 1);
  EXPECT_EQ(calls_, 7);
}

// The rounded copy that lies in the scratch behind a pass is of no row that comes later.
TEST_F(GraphPass, LeaveNoRoundedCopyBehind) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(Run(2, 30 + i), Expected(2, 30 + i));
    // An op outside, on the buffer that the pass rounded last.
    const std::vector<float> fives(2 * kWidth, 5.f);
    backend_->CopyIn(embedded_->data(), fives.data(), fives.size() * sizeof(float));
    backend_->MatMul(*eye_, embedded_->floats(), 2, nullptr, false, out_->floats());
    float value = 0;
    backend_->CopyOut(&value, out_->data(), sizeof(float));
    backend_->Wait();
    EXPECT_EQ(value, 5.f);
    // And one whose copy is there when the next pass replays over it.
    ASSERT_EQ(Run(2, 40 + i), Expected(2, 40 + i));
    backend_->MatMul(*eye_, out_->floats(), 2, nullptr, false, embedded_->floats());
    ASSERT_EQ(Run(2, 60 + i), Expected(2, 60 + i));
    backend_->MatMul(*eye_, out_->floats(), 2, nullptr, false, embedded_->floats());
    backend_->CopyOut(&value, embedded_->data(), sizeof(float));
    backend_->Wait();
    EXPECT_EQ(value, static_cast<float>(60 + i));
  }
}

// Whatever a pass does that no capture allows, its result is right and the process lives.
TEST_F(GraphPass, RunWithoutAGraphWhereTheHostCopies) {
  const std::vector<float> other(kWidth, 3.f);
  const auto scrap = backend_->Allocate(kWidth * sizeof(float)).value();
  in_pass_ = [&] { backend_->CopyIn(scrap->data(), other.data(), kWidth * sizeof(float)); };
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  EXPECT_EQ(launches(), 0);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], testing::HasSubstr("a host array is copied"));
}

TEST_F(GraphPass, RunWithoutAGraphWhereAHostArrayIsSent) {
  const auto scrap = backend_->Allocate(kWidth * sizeof(float)).value();
  const std::vector<TokenId> elsewhere = {7};
  in_pass_ = [&] { backend_->Embed(*table_, elsewhere.data(), 1, scrap->floats()); };
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Run(2, i), Expected(2, i));
  EXPECT_EQ(launches(), 0);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], testing::HasSubstr("a host array is sent"));
}

TEST_F(GraphPass, RunWithoutAGraphWhereTheHostWaits) {
  in_pass_ = [&] {
    if (calls_ == 3) backend_->Wait();
  };
  cuda_emulation::SetLate(true);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Run(2, i), Expected(2, i));
  cuda_emulation::SetLate(false);
  EXPECT_EQ(launches(), 0);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], testing::HasSubstr("the host waits"));
}

}  // namespace
}  // namespace outrider
