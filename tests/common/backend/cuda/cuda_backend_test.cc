// The CUDA backend apart from its ops: names, memory, large copies, long contexts.
#include "common/backend/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "common/backend/create_backend.h"
#include "common/backend/cuda/cuda_batch.h"
#include "common/backend/cuda/cuda_device.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/code_product.h"
#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/emulator.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::unique_ptr<Backend> Emulated() { return CreateEmulatedCudaBackend().value(); }

TEST(CudaBackend, SaysWhatItRunsOn) {
  EXPECT_EQ(Emulated()->Describe(), "cuda:0 (emulated on the host, 16 GiB, sm_90)");
  EXPECT_EQ(Emulated()->device()->Memory().total, int64_t{16} << 30);
}

// Where an H100 runs code for 8.0, nothing in it waits for the kernels before.
TEST(CudaBackend, KernelsOverlapByTheirDevice) {
  cuda_emulation::SetDevices({{}, {.major = 8, .compiled_for = 80}, {.compiled_for = 80}});
  std::vector<std::unique_ptr<Backend>> backends;
  for (int device = 0; device < 3; ++device) {
    ASSERT_TRUE(UseCudaDevice(device).ok());
    backends.push_back(CreateCudaBackend(device, nullptr, {}).value());
  }
  for (const int device : {0, 1, 2, 0}) {
    Backend& backend = *backends[static_cast<size_t>(device)];
    const auto buffer = backend.Allocate(8 * sizeof(float)).value();
    const int64_t before = cuda_emulation::Overlaps();
    backend.Scale(buffer->floats(), 1, 8, 2.f);
    backend.Wait();
    EXPECT_EQ(cuda_emulation::Overlaps() - before, device == 0 ? 1 : 0) << device;
  }
  backends.clear();
  cuda_emulation::SetDevices(1);
}

TEST(CudaBackend, AllocatesZeroedMemoryOrRefuses) {
  const auto backend = Emulated();
  const auto buffer = backend->Allocate(1000).value();
  std::vector<char> bytes(1000, 1);
  backend->CopyOut(bytes.data(), buffer->data(), bytes.size());
  backend->Wait();
  EXPECT_EQ(bytes, std::vector<char>(1000, 0));
  const auto refused = backend->Allocate(size_t{17} << 30);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("are free"));
}

TEST(CudaBackend, CopiesMoreThanAPinnedPiece) {
  const auto backend = Emulated();
  std::vector<uint32_t> values(2 * StagedCopy::kPieceBytes / 4 + 12345);
  std::iota(values.begin(), values.end(), 7u);
  const auto buffer = backend->Allocate(values.size() * 4).value();
  backend->CopyIn(buffer->data(), values.data(), values.size() * 4);
  std::vector<uint32_t> back(values.size());
  backend->CopyOut(back.data(), buffer->data(), back.size() * 4);
  backend->Wait();
  EXPECT_EQ(back, values);
}

// Copies are read together if none reads what another writes.
TEST(CudaBackend, CopiesKvSlotsInTheirOrder) {
  constexpr int kSlots = 24, kDim = 8;
  const AttentionShape shape = {
      .num_heads = 1, .num_kv_heads = 1, .head_dim = kDim, .page_tokens = 4};
  const auto backend = Emulated();
  std::mt19937 random(5);
  for (const int count : {1, 7, 8, 9, 16, 100}) {
    std::vector<float> keys(kSlots * kDim);
    std::iota(keys.begin(), keys.end(), 0.f);
    std::vector<float> values(keys.rbegin(), keys.rend());
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (const auto* host : {&keys, &values}) {
      buffers.push_back(backend->Allocate(host->size() * sizeof(float)).value());
      backend->CopyIn(buffers.back()->data(), host->data(), host->size() * sizeof(float));
    }
    std::vector<SlotCopy> copies;
    for (int i = 0; i < count; ++i) {
      // Sometimes a copy reads what the previous one wrote, or overwrites it.
      const auto slot = [&] { return static_cast<int32_t>(random() % kSlots); };
      const int32_t last = copies.empty() ? 0 : copies.back().to;
      copies.push_back({random() % 4 == 0 ? last : slot(), random() % 8 == 0 ? last : slot()});
    }
    const KvLayer layer = {buffers[0]->data(), buffers[1]->data(), KvType::kF32};
    backend->CopyKvSlots({&layer, 1}, shape, copies);
    std::vector<float> got_keys(keys.size()), got_values(keys.size());
    backend->CopyOut(got_keys.data(), layer.keys, keys.size() * sizeof(float));
    backend->CopyOut(got_values.data(), layer.values, keys.size() * sizeof(float));
    backend->Wait();
    for (const SlotCopy& copy : copies) {
      for (auto* host : {&keys, &values}) {
        std::copy_n(host->begin() + copy.from * kDim, kDim, host->begin() + copy.to * kDim);
      }
    }
    EXPECT_EQ(got_keys, keys) << count;
    EXPECT_EQ(got_values, values) << count;
  }
}

TEST(CudaBackend, PacksMoreThanAPinnedPiece) {
  const auto backend = Emulated();
  const int out = 1500, in = 7001;  // 21 MB as bf16, rows padded
  std::vector<float> w(static_cast<size_t>(out) * in, 0.f);
  for (int o = 0; o < out; ++o) w[static_cast<size_t>(o) * in + o] = static_cast<float>(o % 100);
  const auto packed = backend->Pack({w.data(), Dtype::kF32, {out, in}}, WeightType::kBf16).value();
  std::vector<float> ones(in, 1.f), y(out);
  const auto x = backend->Allocate(in * sizeof(float)).value();
  const auto got = backend->Allocate(out * sizeof(float)).value();
  backend->CopyIn(x->data(), ones.data(), in * sizeof(float));
  backend->MatMul(*packed, x->floats(), 1, nullptr, false, got->floats());
  backend->CopyOut(y.data(), got->data(), out * sizeof(float));
  backend->Wait();
  for (int o = 0; o < out; ++o) ASSERT_EQ(y[o], static_cast<float>(o % 100));
}

class NoProduct final : public LargeProduct {
 public:
  explicit NoProduct(int* calls) : calls_(*calls) {}
  bool Supports(const ProductCall&) override { return true; }
  bool Run(const ProductCall&, cudaStream_t) override { return ++calls_ < 0; }

 private:
  int& calls_;
};

// Existing sums and the bias are added once, whichever product is used in the end.
TEST(CudaBackend, MultipliesWhereLibraryHasNoKernel) {
  int calls = 0;
  const auto backend = CreateEmulatedCudaBackend({}, std::make_unique<NoProduct>(&calls)).value();
  const int rows = 40, in = 16, out = 24;
  const std::vector<float> w(out * in, 0.5f), ones(rows * in, 1.f), bias(out, 3.f);
  const auto packed = backend->Pack({w.data(), Dtype::kF32, {out, in}}, WeightType::kBf16).value();
  const auto upload = [&](const std::vector<float>& host) {
    auto buffer = backend->Allocate(host.size() * sizeof(float)).value();
    backend->CopyIn(buffer->data(), host.data(), host.size() * sizeof(float));
    return buffer;
  };
  const auto x = upload(ones), device_bias = upload(bias);
  for (const bool accumulate : {false, true}) {
    const auto y = upload(std::vector<float>(rows * out, 100.f));
    backend->MatMul(*packed, x->floats(), rows, device_bias->floats(), accumulate, y->floats());
    std::vector<float> got(rows * out);
    backend->CopyOut(got.data(), y->data(), got.size() * sizeof(float));
    backend->Wait();
    EXPECT_EQ(got, std::vector<float>(rows * out, 8.f + 3.f + (accumulate ? 100.f : 0.f)));
  }
  EXPECT_EQ(calls, 2);
}

TEST(CudaBackend, ReadsCodesOfFewRows) {
  int calls = 0;
  const auto backend = CreateEmulatedCudaBackend({}, std::make_unique<NoProduct>(&calls)).value();
  const int in = 64, out = 32, most = kCodeProductRows + 1;
  std::vector<float> w(out * in);
  for (int i = 0; i < out * in; ++i) w[i] = static_cast<float>(i % 15 - 7);  // exact in 4 bits
  const auto packed = backend->Pack({w.data(), Dtype::kF32, {out, in}}, WeightType::kW4A16).value();
  const std::vector<float> ones(most * in, 1.f);
  const auto x = backend->Allocate(ones.size() * sizeof(float)).value();
  backend->CopyIn(x->data(), ones.data(), ones.size() * sizeof(float));
  const auto y = backend->Allocate(most * out * sizeof(float)).value();
  std::vector<float> sums(out, 0.f);
  for (int i = 0; i < out * in; ++i) sums[i / in] += w[i];
  for (const int rows : {kCodeProductRows, most}) {
    backend->MatMul(*packed, x->floats(), rows, nullptr, /*accumulate=*/false, y->floats());
    std::vector<float> got(rows * out);
    backend->CopyOut(got.data(), y->data(), got.size() * sizeof(float));
    backend->Wait();
    for (int i = 0; i < rows * out; ++i) ASSERT_EQ(got[i], sums[i % out]) << rows << " rows";
    EXPECT_EQ(calls, rows == most ? 1 : 0) << rows << " rows";
  }
}

TEST(CudaBackend, F16StaysFinite) {
  const auto backend = Emulated();
  const int n = 16;
  std::vector<float> eye(n * n, 0.f), x(n, 1e6f), y(n);
  for (int i = 0; i < n; ++i) eye[i * n + i] = 1.f;
  x[1] = -1e6f;
  x[2] = 65519.f;  // still rounds to the largest value
  x[3] = 3.f;
  const auto w = backend->Pack({eye.data(), Dtype::kF32, {n, n}}, WeightType::kF16).value();
  const auto in = backend->Allocate(n * sizeof(float)).value();
  const auto out = backend->Allocate(n * sizeof(float)).value();
  const auto product = [&] {
    backend->CopyIn(in->data(), x.data(), n * sizeof(float));
    backend->MatMul(*w, in->floats(), 1, nullptr, false, out->floats());
    backend->CopyOut(y.data(), out->data(), n * sizeof(float));
    backend->Wait();
    return std::vector<float>(y.begin(), y.begin() + 4);
  };
  EXPECT_THAT(product(), ::testing::ElementsAre(65504.f, -65504.f, 65504.f, 3.f));
  x[0] = std::numeric_limits<float>::quiet_NaN();  // NaN is not hidden
  EXPECT_TRUE(std::isnan(product()[0]));
}

// The rounded copy that an op leaves for the next product must not outlive its source.
TEST(CudaBackend, ProductReadsCurrentInput) {
  const auto backend = Emulated();
  const int n = 16;
  std::vector<float> eye(n * n, 0.f), ones(n, 1.f), twos(n, 2.f), y(n);
  for (int i = 0; i < n; ++i) eye[i * n + i] = 1.f;
  const auto w = backend->Pack({eye.data(), Dtype::kF32, {n, n}}, WeightType::kBf16).value();
  const auto x = backend->Allocate(n * sizeof(float)).value();
  const auto gain = backend->Allocate(n * sizeof(float)).value();
  const auto out = backend->Allocate(n * sizeof(float)).value();
  backend->CopyIn(gain->data(), ones.data(), n * sizeof(float));
  const auto product = [&](float* input) {
    backend->MatMul(*w, input, 1, nullptr, false, out->floats());
    backend->CopyOut(y.data(), out->data(), n * sizeof(float));
    backend->Wait();
    return y[3];
  };
  backend->CopyIn(x->data(), twos.data(), n * sizeof(float));
  backend->RmsNorm(x->floats(), gain->floats(), 1, n, n, 0.f, false, x->floats(), Consumers::kAny);
  EXPECT_EQ(product(x->floats()), 1.f);
  backend->CopyIn(x->data(), twos.data(), n * sizeof(float));
  EXPECT_EQ(product(x->floats()), 2.f);
  backend->RmsNorm(x->floats(), gain->floats(), 1, n, n, 0.f, false, x->floats(), Consumers::kAny);
  backend->MatMul(*w, gain->floats(), 1, nullptr, true, x->floats());  // 1 + 1
  EXPECT_EQ(product(x->floats()), 2.f);
  // The same with a product that rounds nothing itself and so leaves the copy alone.
  const auto exact = backend->Pack({eye.data(), Dtype::kF32, {n, n}}, WeightType::kF32).value();
  backend->RmsNorm(x->floats(), gain->floats(), 1, n, n, 0.f, false, x->floats(), Consumers::kAny);
  backend->MatMul(*exact, gain->floats(), 1, nullptr, true, x->floats());
  EXPECT_EQ(product(x->floats()), 2.f);
  const std::vector<float> threes(n, 3.f);
  const auto table = backend->Pack({threes.data(), Dtype::kF32, {1, n}}, WeightType::kF32).value();
  const std::vector<TokenId> token = {0};
  backend->RmsNorm(x->floats(), gain->floats(), 1, n, n, 0.f, false, x->floats(), Consumers::kAny);
  backend->Embed(*table, token.data(), 1, x->floats());
  EXPECT_EQ(product(x->floats()), 3.f);
}

// If only products read a result, they get the rounded copy and the floats are not written.
TEST(CudaBackend, SkipsFloatsOnlyProductsRead) {
  const auto backend = Emulated();
  const int n = 16;
  const std::vector<float> eye(n * n, 0.25f), ones(n, 1.f), poison(n, 1000.f);
  const auto w = backend->Pack({eye.data(), Dtype::kF32, {n, n}}, WeightType::kBf16).value();
  const auto in = backend->Allocate(2 * n * sizeof(float)).value();
  const auto gain = backend->Allocate(n * sizeof(float)).value();
  const auto x = backend->Allocate(n * sizeof(float)).value();
  const auto out = backend->Allocate(n * sizeof(float)).value();
  backend->CopyIn(in->data(), ones.data(), n * sizeof(float));
  backend->CopyIn(in->floats() + n, ones.data(), n * sizeof(float));
  backend->CopyIn(gain->data(), ones.data(), n * sizeof(float));
  const auto first_of = [&](Buffer& buffer) {
    std::vector<float> y(n);
    backend->CopyOut(y.data(), buffer.data(), n * sizeof(float));
    backend->Wait();
    return y[0];
  };
  for (const Consumers consumers : {Consumers::kAny, Consumers::kProducts}) {
    const bool written = consumers == Consumers::kAny;
    backend->CopyIn(x->data(), poison.data(), n * sizeof(float));
    backend->RmsNorm(in->floats(), gain->floats(), 1, n, n, 0.f, false, x->floats(), consumers);
    backend->MatMul(*w, x->floats(), 1, nullptr, false, out->floats());
    EXPECT_EQ(first_of(*out), 4.f);
    EXPECT_EQ(first_of(*x), written ? 1.f : 1000.f);

    backend->CopyIn(x->data(), poison.data(), n * sizeof(float));
    backend->Glu(Activation::kGeluTanh, in->floats(), 1, n, x->floats(), consumers);
    backend->MatMul(*w, x->floats(), 1, nullptr, false, out->floats());
    EXPECT_NEAR(first_of(*out), 4 * 0.8412, 0.01);
    EXPECT_NEAR(first_of(*x), written ? 0.8412 : 1000, 1e-4);
  }
}

// A chain of three rows after `context` tokens, with blocks that have all of it, one chunk each, or
// several chunks in turns.
void ExpectSameBitsCutOrNot(int context) {
  const AttentionShape shape = {
      .num_heads = 6, .num_kv_heads = 2, .head_dim = 40, .page_tokens = 16};
  const int rows = 3, pages = (context + rows) / 16 + 1;
  std::vector<float> keys(static_cast<size_t>(pages) * 16 * 2 * 40), values(keys.size());
  std::vector<float> qkv(static_cast<size_t>(rows) * 10 * 40);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (auto* array : {&keys, &values, &qkv}) {
    for (float& x : *array) x = normal(random);
  }
  std::vector<int32_t> positions = {context, context + 1, context + 2}, slots = positions;
  std::vector<int32_t> row_begin = {0, rows}, contexts = {context};
  std::vector<int32_t> page_begin = {0, pages}, page(pages);
  std::iota(page.begin(), page.end(), 0);
  const BatchLayout layout = {.rows = rows,
                              .sequences = 1,
                              .positions = positions.data(),
                              .slots = slots.data(),
                              .row_begin = row_begin.data(),
                              .context = contexts.data(),
                              .page_begin = page_begin.data(),
                              .pages = page.data()};
  const Stream stream;
  std::vector<std::vector<float>> results;
  const std::pair<int, bool> kinds[] = {{1, false}, {10000, false}, {10000, true}};
  for (const auto& [blocks, turns] : kinds) {
    CudaBatch batch(&stream);
    const PlannedAttention& plan =
        batch.Attention(layout, shape,
                        {.blocks = blocks,
                         .max_partials = 1000,
                         .tile_queries = AttentionTileQueries(shape, KvType::kF32)});
    EXPECT_EQ(plan.merges == 0, blocks == 1);
    std::vector<float> partials(plan.partials * PartialBytes(shape) / sizeof(float), NAN);
    AttentionCall call = plan.call;
    results.emplace_back(static_cast<size_t>(rows) * 6 * 40, NAN);
    call.qkv = qkv.data();
    call.partials = partials.data();
    call.out = results.back().data();
    ASSERT_EQ(LaunchPagedAttention(call, {keys.data(), values.data(), KvType::kF32},
                                   turns ? 2 : plan.units, turns ? 1 : plan.merges,
                                   plan.tile_queries, stream.get()),
              cudaSuccess);
  }
  EXPECT_FALSE(std::isnan(results[0][0]));
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(CudaBackend, ChunkedAttentionIsBitExact) {
  ExpectSameBitsCutOrNot(700);
  ExpectSameBitsCutOrNot(11000);  // 43 chunks: the merge processes 32 at a time
}

// A layer with a window reads nothing before it, whatever other layers of the pass see.
TEST(CudaBackend, PlansAPassForEachWindow) {
  const AttentionShape all = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 16, .page_tokens = 16};
  AttentionShape some = all;
  some.sliding_window = 300;
  std::vector<int32_t> positions = {700}, slots = {700}, row_begin = {0, 1}, context = {700};
  std::vector<int32_t> page_begin = {0, 44}, pages(44), windows = {0, 300};
  std::iota(pages.begin(), pages.end(), 0);
  const BatchLayout layout = {.rows = 1,
                              .sequences = 1,
                              .positions = positions.data(),
                              .slots = slots.data(),
                              .row_begin = row_begin.data(),
                              .context = context.data(),
                              .page_begin = page_begin.data(),
                              .pages = pages.data(),
                              .windows = windows};
  const Stream stream;
  CudaBatch batch(&stream);
  const AttentionLimits limits = {.blocks = 1, .max_partials = 100, .tile_queries = 8};
  batch.BeginPasses({&layout, 1}, all, limits, /*for_graphs=*/true);
  const AttentionPlanUnit* all_units = batch.Attention(layout, all, limits).call.units;
  const AttentionPlanUnit* some_units = batch.Attention(layout, some, limits).call.units;
  stream.Wait();
  EXPECT_EQ(all_units->begin, 0);
  EXPECT_EQ(some_units->begin, 401);
  EXPECT_EQ(some_units->chunk_begin, 1);
}

TEST(CreateBackend, KnowsItsDevicesByName) {
  EXPECT_THAT(CreateBackend("cpu", {}).value()->Describe(), StartsWith("cpu"));
  for (const char* name :
       {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999"}) {
    EXPECT_EQ(CreateBackend(name, {}).status().code(), Code::kInvalidArgument) << name;
  }
}

// Would fail on a machine with 1000 devices.
TEST(CreateBackend, SaysWhyThereIsNoDevice) {
  const auto none = CreateBackend("cuda:999", {});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(),
              ::testing::AnyOf(HasSubstr("is it built (OUTRIDER_CUDA)"),  // no module
                               HasSubstr("driver"), HasSubstr("there is no cuda:999")));
}

}  // namespace
}  // namespace outrider
