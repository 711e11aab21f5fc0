// cublas_product.cc over the tests' double of cublasLt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/cuda/large_product.h"
#include "common/backend/cuda/stream_capture.h"
#include "tests/support/cuda_emulation/emulator.h"
#include "tests/support/cuda_emulation/fake_cublas.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace cuda_emulation;

// Operands in device memory, with weights and inputs from -1 to 1 that 16 bits hold exactly.
class Operands {
 public:
  Operands(Dtype dtype, int rows, int out, int stride)
      : call{.dtype = dtype, .out_features = out, .stride = stride, .rows = rows} {
    w_ = Fill(static_cast<size_t>(out) * stride, &w_floats_);
    x_ = Fill(static_cast<size_t>(rows) * stride, &x_floats_);
    y_ = Memory(static_cast<size_t>(rows) * out * sizeof(float));
    call.w = w_->data();
    call.x = x_->data();
    call.y = static_cast<float*>(y_->data());
  }

  // The largest difference of y from `before` plus the product in double.
  double Error(float before) const {
    double most = 0;
    for (int row = 0; row < call.rows; ++row) {
      for (int o = 0; o < call.out_features; ++o) {
        double sum = static_cast<double>(before);
        for (int i = 0; i < call.stride; ++i) {
          sum += static_cast<double>(w_floats_[static_cast<size_t>(o) * call.stride + i]) *
                 static_cast<double>(x_floats_[static_cast<size_t>(row) * call.stride + i]);
        }
        const auto got = static_cast<double>(call.y[row * call.out_features + o]);
        if (!std::isfinite(got)) return INFINITY;
        most = std::fmax(most, std::fabs(got - sum));
      }
    }
    return most;
  }
  void SetOutputs(float value) {
    std::fill_n(call.y, static_cast<size_t>(call.rows) * call.out_features, value);
  }

  ProductCall call;

 private:
  static std::unique_ptr<CudaBuffer> Memory(size_t bytes) {
    return CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, bytes, nullptr).value();
  }
  std::unique_ptr<CudaBuffer> Fill(size_t count, std::vector<float>* floats) {
    auto memory = Memory(count * DtypeBytes(call.dtype));
    for (size_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(static_cast<int>(random_() % 129) - 64) / 64.f;
      floats->push_back(value);
      if (call.dtype == Dtype::kF32) {
        static_cast<float*>(memory->data())[i] = value;
      } else {
        static_cast<uint16_t*>(memory->data())[i] =
            call.dtype == Dtype::kF16 ? FloatToF16(value) : FloatToBf16(value);
      }
    }
    return memory;
  }

  std::mt19937 random_{1};
  std::vector<float> w_floats_, x_floats_;
  std::unique_ptr<CudaBuffer> w_, x_, y_;
};

class CublasProduct : public ::testing::Test {
 protected:
  CublasProduct() { Begin({{}}); }
  ~CublasProduct() override {
    product_.reset();
    EXPECT_EQ(LiveCublasObjects(), 0);
    EXPECT_THAT(TakeMisuses(), IsEmpty());
  }
  void Begin(std::vector<FakeAlgorithm> algorithms) {
    SetAlgorithms(std::move(algorithms));
    product_ = CreateCublasProduct().value();
  }
  bool Run(const Operands& operands) { return product_->Run(operands.call, stream_.get()); }
  // Runs the product. Returns whether the result is right.
  ::testing::AssertionResult Multiplies(Operands* operands) {
    operands->SetOutputs(2.f);
    if (!Run(*operands)) return ::testing::AssertionFailure() << "no product";
    stream_.Wait();
    const double error = operands->Error(operands->call.accumulate ? 2.f : 0.f);
    if (error > 1e-5) return ::testing::AssertionFailure() << "off by " << error;
    return ::testing::AssertionSuccess();
  }

  Stream stream_;
  std::unique_ptr<LargeProduct> product_;
};

TEST_F(CublasProduct, EqualsDouble) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kBf16}) {
    for (const int rows : {1, 17, 130}) {
      for (const bool accumulate : {false, true}) {
        Operands operands(dtype, rows, /*out=*/24, /*stride=*/40);
        operands.call.accumulate = accumulate;
        EXPECT_TRUE(Multiplies(&operands)) << rows << " rows, accumulating: " << accumulate;
      }
    }
  }
}

// Codes of ones with factors for each row of both sides, those of the call.
TEST_F(CublasProduct, MultipliesFp8WithItsScales) {
  constexpr int kRows = 3, kOut = 16, kInner = 32;
  constexpr uint8_t kOne = 0x38;
  const auto memory = [](size_t bytes) {
    return CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, bytes, nullptr).value();
  };
  const auto codes = memory(kOut * kInner), y = memory(kRows * kOut * sizeof(float));
  std::fill_n(static_cast<uint8_t*>(codes->data()), kOut * kInner, kOne);
  for (const float factor : {1.f, 3.f}) {
    const auto w_scales = memory(kOut * sizeof(float)), x_scales = memory(kRows * sizeof(float));
    auto* const of_w = static_cast<float*>(w_scales->data());
    auto* const of_x = static_cast<float*>(x_scales->data());
    for (int i = 0; i < kOut; ++i) of_w[i] = factor * static_cast<float>(1 + i);
    for (int i = 0; i < kRows; ++i) of_x[i] = static_cast<float>(1 + i) / 4;
    EXPECT_TRUE(product_->Run({.w = codes->data(),
                               .x = codes->data(),
                               .w_scales = of_w,
                               .x_scales = of_x,
                               .out_features = kOut,
                               .stride = kInner,
                               .rows = kRows,
                               .y = static_cast<float*>(y->data())},
                              stream_.get()));
    stream_.Wait();
    for (int i = 0; i < kRows * kOut; ++i) {
      ASSERT_EQ(static_cast<float*>(y->data())[i], kInner * of_w[i % kOut] * of_x[i / kOut]);
    }
  }
}

// Codes of ones, a block of 128 x 128 of w and of 128 of x with scales of its own. Its scales do
// not concern a product of rows of the same shape.
class Blocks {
 public:
  static constexpr int kRows = 8, kOut = 256, kInner = 640, kBlocks = 5, kPadded = 8;

  Blocks() {
    std::fill_n(static_cast<uint8_t*>(codes_->data()), kOut * kInner, kOne);
    for (int i = 0; i < kOut; ++i) w()[i] = static_cast<float>(1 << i % 11);
    for (int i = 0; i < kBlocks * kRows; ++i) x()[i] = static_cast<float>(1 + i % 7) / 4;
  }
  ProductCall Call(int rows = kRows) const {
    return {.w = codes_->data(),
            .x = codes_->data(),
            .w_scales = w(),
            .x_scales = x(),
            .in_blocks = true,
            .out_features = kOut,
            .stride = kInner,
            .rows = rows,
            .y = static_cast<float*>(y_->data())};
  }
  float Want(int row, int output) const {
    float sum = 0;
    for (int block = 0; block < kBlocks; ++block) {
      sum += kScaleBlock * w()[output / kScaleBlock * kPadded + block] * x()[block * kRows + row];
    }
    return sum;
  }
  float* w() const { return static_cast<float*>(w_scales_->data()); }
  float* x() const { return static_cast<float*>(x_scales_->data()); }
  float* y() const { return static_cast<float*>(y_->data()); }

 private:
  static constexpr uint8_t kOne = 0x38;
  static std::unique_ptr<CudaBuffer> Memory(size_t bytes) {
    return CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs, bytes, nullptr).value();
  }
  // Scales of w also serve as those of its rows.
  const std::unique_ptr<CudaBuffer> codes_ = Memory(kOut * kInner),
                                    y_ = Memory(kRows * kOut * sizeof(float)),
                                    w_scales_ = Memory(kOut * sizeof(float)),
                                    x_scales_ = Memory(kBlocks * kRows * sizeof(float));
};

TEST_F(CublasProduct, MultipliesFp8InBlocks) {
  const Blocks blocks;
  ProductCall of_rows = blocks.Call();
  of_rows.in_blocks = false;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(product_->Run(blocks.Call(), stream_.get()));
    stream_.Wait();
    for (int at = 0; at < Blocks::kRows * Blocks::kOut; ++at) {
      ASSERT_EQ(blocks.y()[at], blocks.Want(at / Blocks::kOut, at % Blocks::kOut)) << at;
    }
    EXPECT_TRUE(product_->Run(of_rows, stream_.get()));
    stream_.Wait();
    EXPECT_EQ(blocks.y()[3], Blocks::kInner * blocks.w()[3] * blocks.x()[0]);
  }
}

// The double refuses what the documentation forbids.
TEST_F(CublasProduct, BlocksNeedScalesAsDocumented) {
  const Blocks blocks;
  const auto refusal = [&](const ProductCall& call) {
    EXPECT_FALSE(product_->Run(call, stream_.get()));
    const std::vector<std::string> misuses = TakeMisuses();
    return misuses.empty() ? "" : misuses.back();
  };
  EXPECT_THAT(refusal(blocks.Call(Blocks::kRows - 1)), HasSubstr("no multiples of 4"));
  ProductCall call = blocks.Call(4);
  ++call.x_scales;
  EXPECT_THAT(refusal(call), HasSubstr("16 bytes do not align"));
  EXPECT_THAT(refusal(blocks.Call(Blocks::kRows + 4)), HasSubstr("not all of them"));
}

TEST_F(CublasProduct, TakesRowsWithinABuffer) {
  Operands operands(Dtype::kBf16, 18, 24, 40);
  ProductCall call = operands.call;
  call.x = static_cast<const uint16_t*>(call.x) + call.stride;
  call.y += call.out_features;
  --call.rows;
  operands.SetOutputs(0.f);
  EXPECT_TRUE(Run(operands));
  std::vector<float> whole(operands.call.y, operands.call.y + 18 * 24);
  operands.SetOutputs(0.f);
  EXPECT_TRUE(product_->Run(call, stream_.get()));
  std::fill_n(whole.begin(), 24, 0.f);
  EXPECT_EQ(std::vector<float>(operands.call.y, operands.call.y + 18 * 24), whole);
}

// A megabyte of weights is not timed, as its times would be noise.
TEST_F(CublasProduct, TakesTheClearlyFastest) {
  Operands small(Dtype::kBf16, 2, 24, 40), large(Dtype::kBf16, 2, 1024, 2048);
  Begin({{.milliseconds = 1.f}, {.milliseconds = 0.97f}});
  EXPECT_TRUE(Run(large));
  EXPECT_EQ(ProductsTried().back(), 0u) << "0.97 of the first one's time";

  Begin({{.milliseconds = 1.f},
         {.milliseconds = 0.1f, .fails = true},
         {.milliseconds = 0.5f},
         {.milliseconds = 0.7f}});
  EXPECT_TRUE(Run(small));
  EXPECT_THAT(ProductsTried(), ElementsAre(0));
  EXPECT_TRUE(Multiplies(&large));
  EXPECT_EQ(ProductsTried().back(), 2u);
  large.call.accumulate = true;
  EXPECT_TRUE(Multiplies(&large));
}

TEST_F(CublasProduct, TimingLeavesSumsAsTheyAre) {
  Begin({{.milliseconds = 1.f}, {.milliseconds = 0.5f}});
  Operands operands(Dtype::kBf16, 2, 1024, 2048);
  operands.call.accumulate = true;
  EXPECT_TRUE(Multiplies(&operands)) << "the search runs each algorithm several times";
  EXPECT_GT(ProductsTried().size(), 4u);
}

TEST_F(CublasProduct, RowsOfBucketShareAlgorithm) {
  Begin({{.column_multiple = 2}, {}});
  for (const int rows : {18, 20, 32, 18}) {
    Operands operands(Dtype::kBf16, rows, 24, 40);
    EXPECT_TRUE(Multiplies(&operands));
  }
  EXPECT_EQ(Searches(), 1);
  // The bucket's does not take an odd number, so that another is asked for, once.
  Operands odd(Dtype::kBf16, 19, 24, 40);
  EXPECT_TRUE(Multiplies(&odd));
  EXPECT_TRUE(Multiplies(&odd));
  EXPECT_EQ(Searches(), 2);
  EXPECT_THAT(ProductsTried(), ElementsAre(0, 0, 0, 0, 1, 1));
}

// The workspace has 32 MiB.
TEST_F(CublasProduct, RowsOfBucketNeedMoreWorkspace) {
  Begin({{.workspace_of_column = size_t{700} << 10}, {}});
  for (const int rows : {33, 48, 34}) {
    Operands operands(Dtype::kBf16, rows, 24, 40);
    EXPECT_TRUE(Multiplies(&operands)) << rows;
  }
  EXPECT_THAT(ProductsTried(), ElementsAre(0, 1, 0));
}

TEST_F(CublasProduct, SaysWhereItHasNoAlgorithm) {
  for (const FakeAlgorithm& algorithm :
       {FakeAlgorithm{.column_multiple = 1000}, FakeAlgorithm{.fails = true},
        FakeAlgorithm{.workspace_of_column = size_t{2} << 20}}) {
    Begin({algorithm});
    Operands operands(Dtype::kBf16, 17, 24, 40);
    operands.SetOutputs(3.f);
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(Run(operands));
    EXPECT_FALSE(product_->Supports(operands.call));
    EXPECT_EQ(operands.call.y[0], 3.f);
    EXPECT_EQ(Searches(), 1);
    EXPECT_LE(ProductsTried().size(), 1u);
  }
}

TEST_F(CublasProduct, RunsInGraphs) {
  Operands operands(Dtype::kBf16, 17, 24, 40);
  EXPECT_TRUE(Run(operands));  // the algorithm is chosen outside
  operands.SetOutputs(0.f);
  StreamCapture capture(stream_.get());
  EXPECT_TRUE(Run(operands));
  cudaGraph_t graph = capture.End();
  ASSERT_NE(graph, nullptr) << capture.why();
  EXPECT_EQ(operands.call.y[0], 0.f);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream_.get()), cudaSuccess);
  stream_.Wait();
  EXPECT_LE(operands.Error(0.f), 1e-5);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

// The search waits and allocates, which a capture forbids: it fails, and the pass runs without.
TEST_F(CublasProduct, SearchInvalidatesACapture) {
  Begin({{.milliseconds = 1.f}, {.milliseconds = 0.5f}});
  Operands operands(Dtype::kBf16, 2, 1024, 2048);
  {
    StreamCapture capture(stream_.get());
    Run(operands);
    EXPECT_EQ(capture.End(), nullptr);
  }
  EXPECT_TRUE(Multiplies(&operands));
  EXPECT_EQ(ProductsTried().back(), 1u) << "nothing was chosen during the capture";
}

TEST_F(CublasProduct, MissingLibraryIsAnError) {
  FailNextCreate();
  const auto product = CreateCublasProduct();
  EXPECT_EQ(product.status().code(), Code::kInternal);
  EXPECT_THAT(product.status().message(), HasSubstr("CUBLAS_STATUS_NOT_INITIALIZED"));
}

}  // namespace
}  // namespace outrider
