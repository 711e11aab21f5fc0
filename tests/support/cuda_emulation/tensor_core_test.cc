// The emulation of kernels/tensor_core.h against plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "common/tensor/tensor.h"
#include "tests/support/cuda_emulation/emulator.h"
#include "tests/support/cuda_emulation/tensor_core_test_kernels.h"

namespace outrider {
namespace {

using cuda_emulation::LastFailure;
using ::testing::HasSubstr;

constexpr Fragments kAll[] = {Fragments::kByHand, Fragments::kLoaded, Fragments::kLoadedTransposed};

struct Product {
  explicit Product(unsigned seed) : a(16 * 16), b(16 * 8), c(16 * 8) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto* bits : {&a, &b}) {
      for (uint16_t& x : *bits) x = FloatToBf16(normal(random));
    }
    for (float& x : c) x = normal(random);
  }
  std::vector<float> Plain() const {
    std::vector<float> d = c;
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 8; ++n) {
        for (int k = 0; k < 16; ++k) {
          d[m * 8 + n] += Bf16ToFloat(a[m * 16 + k]) * Bf16ToFloat(b[k * 8 + n]);
        }
      }
    }
    return d;
  }
  std::vector<float> Run(Fragments how) const {
    std::vector<float> d(16 * 8);
    EXPECT_EQ(LaunchMatrixProduct(how, a.data(), b.data(), c.data(), d.data()), cudaSuccess)
        << LastFailure();
    return d;
  }
  std::vector<uint16_t> a, b;
  std::vector<float> c;
};

TEST(TensorCoreEmulation, ProductsEqualThePlainLoop) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Product product(seed);
    for (const Fragments how : kAll) EXPECT_EQ(product.Run(how), product.Plain());
  }
}

TEST(TensorCoreEmulation, ZeroProductLeavesNoTrace) {
  Product product(1);
  Product large = product;
  for (int m = 0; m < 16; ++m) product.a[m * 16 + 5] = large.a[m * 16 + 5] = 0;
  for (int n = 0; n < 8; ++n) large.b[5 * 8 + n] = FloatToBf16(1e30f);
  EXPECT_EQ(product.Run(Fragments::kByHand), large.Run(Fragments::kByHand));
  large.b[5 * 8] = FloatToBf16(std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(large.Run(Fragments::kByHand)[0]));
}

TEST(TensorCoreEmulation, MissingLanesFailTheLaunch) {
  EXPECT_EQ(LaunchHalfAProduct(), cudaErrorLaunchFailure);
  EXPECT_THAT(LastFailure(), HasSubstr("waits at mma.sync"));
  EXPECT_EQ(LaunchHalfALoad(), cudaErrorLaunchFailure);
  EXPECT_THAT(LastFailure(), HasSubstr("is at __syncwarp while thread 0 is at ldmatrix.sync"));
  // The next launch is not affected.
  const Product product(3);
  EXPECT_EQ(product.Run(Fragments::kLoaded), product.Plain());
}

TEST(TensorCoreEmulation, CopiesArriveAtGroupWait) {
  const std::vector<uint16_t> from = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<uint16_t> early(16), late(16), want = from;
  ASSERT_EQ(LaunchCopies(from.data(), early.data(), late.data()), cudaSuccess);
  want.resize(16, 0xffff);
  EXPECT_EQ(early, want);
  want = from;
  want.resize(16, 0);
  EXPECT_EQ(late, want);
}

TEST(TensorCoreEmulation, AddressesOf16BytesAreAligned) {
  alignas(16) const uint16_t from[16] = {};
  for (const auto& [what, operation] :
       {std::pair(Misaligned::kCopySource, "thread 0 gives cp.async"),
        std::pair(Misaligned::kCopyTarget, "thread 0 gives cp.async"),
        std::pair(Misaligned::kMatrixRow, "thread 9 gives ldmatrix")}) {
    EXPECT_EQ(LaunchMisaligned(what, from), cudaErrorLaunchFailure);
    EXPECT_THAT(LastFailure(), HasSubstr(operation));
    EXPECT_THAT(LastFailure(), HasSubstr("not aligned to 16 bytes"));
  }
}

TEST(TensorCoreEmulation, LargeSharedMemoryMustBeRequested) {
  EXPECT_EQ(LaunchWithShared(48 << 10, false), cudaSuccess);
  EXPECT_EQ(LaunchWithShared((48 << 10) + 1, false), cudaErrorInvalidConfiguration);
  EXPECT_THAT(LastFailure(), HasSubstr("shared memory"));
  EXPECT_EQ(LaunchWithShared(99 << 10, true), cudaSuccess);
  EXPECT_EQ(LaunchWithShared((99 << 10) + 1, true), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace outrider
