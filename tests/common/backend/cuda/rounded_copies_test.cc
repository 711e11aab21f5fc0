#include "common/backend/cuda/rounded_copies.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/tensor/tensor.h"
#include "tests/support/cuda_emulation/emulator.h"

namespace outrider {
namespace {

constexpr int kCopiedRows = 3, kCopiedWidth = 5, kCopiedStride = 8;

class RoundedCopiesTest : public ::testing::Test {
 protected:
  RoundedCopiesTest() : copies_(&stream_) {
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i) / 3;
    other_ = x_;
  }

  const uint16_t* Of(const std::vector<float>& x, int rows = kCopiedRows) {
    return copies_.Of(x.data(), rows, kCopiedWidth, kCopiedStride);
  }
  // Kernels launched by `read`.
  template <class F>
  static int64_t LaunchesOf(const F& read) {
    const int64_t before = cuda_emulation::Launches();
    read();
    return cuda_emulation::Launches() - before;
  }

  Stream stream_;
  RoundedCopies copies_;
  std::vector<float> x_ = std::vector<float>(kCopiedRows * kCopiedWidth), other_;
};

TEST_F(RoundedCopiesTest, RoundsOnceAndPadsRows) {
  for (const Dtype type : {Dtype::kBf16, Dtype::kF16}) {
    copies_.SetType(type);
    copies_.Forget();
    const uint16_t* copy = nullptr;
    EXPECT_EQ(LaunchesOf([&] { copy = Of(x_); }), 1);
    for (int r = 0; r < kCopiedRows; ++r) {
      for (int i = 0; i < kCopiedStride; ++i) {
        const float value = i < kCopiedWidth ? x_[static_cast<size_t>(r * kCopiedWidth + i)] : 0.f;
        EXPECT_EQ(copy[r * kCopiedStride + i],
                  type == Dtype::kF16 ? FloatToF16(value) : FloatToBf16(value));
      }
    }
    EXPECT_EQ(LaunchesOf([&] { EXPECT_EQ(Of(x_), copy); }), 0);
    EXPECT_EQ(LaunchesOf([&] { EXPECT_EQ(Of(x_, 1), copy); }), 0) << "a part of it";
  }
}

TEST_F(RoundedCopiesTest, WritesNoneForFloatWeights) {
  const RoundedCopies::Output to =
      copies_.OutputFor(Consumers::kProducts, kCopiedRows, kCopiedWidth, x_.data());
  EXPECT_EQ(to.floats, x_.data());
  EXPECT_EQ(to.rounded.data, nullptr);
}

TEST_F(RoundedCopiesTest, ProductFindsCopyOfOp) {
  copies_.SetType(Dtype::kBf16);
  for (const Consumers consumers : {Consumers::kAny, Consumers::kProducts}) {
    const RoundedCopies::Output to =
        copies_.OutputFor(consumers, kCopiedRows, kCopiedWidth, x_.data());
    EXPECT_EQ(to.floats, consumers == Consumers::kAny ? x_.data() : nullptr);
    EXPECT_EQ(to.rounded.stride, kCopiedStride);
    EXPECT_EQ(LaunchesOf([&] { EXPECT_EQ(Of(x_), to.rounded.data); }), 0);
  }
}

TEST_F(RoundedCopiesTest, OpReadsOneAndWritesAnother) {
  copies_.SetType(Dtype::kBf16);
  const uint16_t* const read = Of(x_);
  EXPECT_NE(
      copies_.OutputFor(Consumers::kAny, kCopiedRows, kCopiedWidth, other_.data()).rounded.data,
      read);
}

TEST_F(RoundedCopiesTest, RoundsAgainWhatHasChanged) {
  copies_.SetType(Dtype::kBf16);
  Of(x_);
  copies_.Overwritten(other_.data());
  EXPECT_EQ(LaunchesOf([&] { Of(x_); }), 0);
  copies_.Overwritten(x_.data());
  EXPECT_EQ(LaunchesOf([&] { Of(x_); }), 1);
  copies_.Forget();
  EXPECT_EQ(LaunchesOf([&] { Of(x_); }), 1);
  EXPECT_EQ(LaunchesOf([&] { Of(other_); }), 1);
  EXPECT_EQ(LaunchesOf([&] { Of(x_); }), 1) << "only the last copy is known";
  Of(x_, 1);
  copies_.Forget();
  Of(x_, 1);
  EXPECT_EQ(LaunchesOf([&] { Of(x_); }), 1) << "more rows than the copy has";
}

// Otherwise a graph's replay would write other memory than its products read.
TEST_F(RoundedCopiesTest, EqualPassesUseEqualMemory) {
  copies_.SetType(Dtype::kBf16);
  std::vector<std::vector<const uint16_t*>> passes;
  for (int pass = 0; pass < 3; ++pass) {
    copies_.BeginPass();
    passes.push_back({Of(x_), Of(other_), Of(x_)});
    if (pass == 1) Of(other_);
  }
  EXPECT_EQ(passes[0], passes[1]);
  EXPECT_EQ(passes[0], passes[2]);
}

TEST_F(RoundedCopiesTest, FloatsThatAreMissingMatter) {
  copies_.SetType(Dtype::kBf16);
  copies_.OutputFor(Consumers::kProducts, 1, kCopiedWidth, x_.data());
  EXPECT_DEATH(Of(x_), "floats_missing_");
}

}  // namespace
}  // namespace outrider
