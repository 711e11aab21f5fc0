// What is specific to the CPU backend; the ops are tested in tests/conformance.
#include "common/backend/cpu/cpu_backend.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace outrider {
namespace {

std::unique_ptr<Backend> MakeBackend(const CpuBackendOptions& options) {
  Result<std::unique_ptr<Backend>> backend = CreateCpuBackend(options);
  EXPECT_TRUE(backend.ok()) << backend.status().ToString();
  return std::move(backend).value();
}

std::vector<float> RandomValues(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

std::vector<float> Multiply(Backend& backend, const std::vector<float>& w, int out, int in,
                            WeightType type, const std::vector<float>& x) {
  const auto packed = backend.Pack({w.data(), Dtype::kF32, {out, in}}, type);
  EXPECT_TRUE(packed.ok());
  const int rows = static_cast<int>(x.size()) / in;
  std::vector<float> y(static_cast<size_t>(rows) * out, NAN);
  backend.MatMul(**packed, x.data(), rows, nullptr, false, y.data());
  return y;
}

TEST(CpuBackend, BitsDoNotDependOnThreads) {
  // More elements than a single thread packs alone, and a partial tile at the end.
  const int out = 700, in = 1001;
  const std::vector<float> w = RandomValues(out * in, 1);
  for (const int rows : {1, 7, 40}) {
    const std::vector<float> x = RandomValues(rows * in, 2);
    for (const WeightType type :
         {WeightType::kBf16, WeightType::kF32, WeightType::kW8A16, WeightType::kW8A8}) {
      const auto one = MakeBackend({});
      const auto want = Multiply(*one, w, out, in, type, x);
      for (const int threads : {2, 3, 5}) {
        const auto many = MakeBackend({.threads = threads, .cores = {}, .bf16_activations = false});
        EXPECT_EQ(Multiply(*many, w, out, in, type, x), want) << threads << " threads";
      }
    }
  }
}

// One product of a broken model must not look like that of a sound one.
TEST(CpuBackend, RoundedProductsKeepNan) {
  const int out = 3, in = 75;
  const auto backend = MakeBackend({});
  const std::vector<float> w = RandomValues(out * in, 1);
  for (const float value : {NAN, INFINITY}) {
    for (int broken = 0; broken < in; ++broken) {
      std::vector<float> x(in, 0.f);
      x[static_cast<size_t>(broken)] = value;
      for (const float y : Multiply(*backend, w, out, in, WeightType::kW8A8, x)) {
        EXPECT_FALSE(std::isfinite(y)) << value << " at " << broken;
      }
    }
  }
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(CpuBackend, MemoryIsResidentOnceUsed) {
  constexpr size_t kBytes = size_t{256} << 20;
  const int64_t before = ResidentBytes();
  const auto buffer = MakeBackend({})->Allocate(kBytes).value();
  EXPECT_LT(ResidentBytes() - before, kBytes / 4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % (2 << 20), 0u);
  EXPECT_EQ(buffer->floats()[kBytes / sizeof(float) - 1], 0.f);
  std::memset(buffer->data(), 1, kBytes);
  EXPECT_GT(ResidentBytes() - before, kBytes / 4 * 3);
}

TEST(CpuBackend, RefusesF16WithWords) {
  const std::vector<float> w(64);
  const auto packed = MakeBackend({})->Pack({w.data(), Dtype::kF32, {8, 8}}, WeightType::kF16);
  ASSERT_FALSE(packed.ok());
  EXPECT_EQ(packed.status().code(), Code::kUnimplemented);
}

TEST(CpuBackend, DescribesItsInstructionSetAndThreads) {
  hwy::SetSupportedTargetsForTest(HWY_SSE4);
  const auto backend = MakeBackend({.threads = 2, .cores = {}, .bf16_activations = true});
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_EQ(backend->Describe(), "cpu (SSE4, 2 threads)");
}

TEST(CpuBackend, KeepsItsInstructionSet) {
  const int out = 64, in = 333;
  const std::vector<float> w = RandomValues(out * in, 3);
  const std::vector<float> x = RandomValues(in, 4);
  hwy::SetSupportedTargetsForTest(HWY_SSE4);
  const auto narrow = MakeBackend({});
  const auto want = Multiply(*narrow, w, out, in, WeightType::kF32, x);
  hwy::SetSupportedTargetsForTest(0);
  const auto best = MakeBackend({});
  EXPECT_EQ(Multiply(*narrow, w, out, in, WeightType::kF32, x), want);
}

TEST(CpuBackend, DenormalsCountAsZero) {
  const auto backend = MakeBackend({});
  const std::vector<float> w(64, 1e-40f);
  const auto y = Multiply(*backend, w, 1, 64, WeightType::kF32, std::vector<float>(64, 1e30f));
  EXPECT_EQ(y[0], 0.f);
  // The caller's own arithmetic is not affected.
  volatile float denormal = 1e-40f;
  EXPECT_NE(denormal * 1.f, 0.f);
}

TEST(CpuBackend, NewMemoryIsZero) {
  const auto backend = MakeBackend({});
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{3} << 20}) {
    const auto buffer = backend->Allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ((*buffer)->bytes(), bytes);
    const char* data = static_cast<const char*>((*buffer)->data());
    EXPECT_EQ(std::count(data, data + bytes, 0), static_cast<std::ptrdiff_t>(bytes));
  }
}

TEST(CpuBackend, ImpossibleOptionsAreErrors) {
  for (const CpuBackendOptions& options :
       {CpuBackendOptions{.threads = 0, .cores = {}, .bf16_activations = false},
        CpuBackendOptions{.threads = 1, .cores = {-1}, .bf16_activations = false},
        CpuBackendOptions{.threads = 1, .cores = {CPU_SETSIZE - 1}, .bf16_activations = false}}) {
    const auto backend = CreateCpuBackend(options);
    ASSERT_FALSE(backend.ok());
    EXPECT_EQ(backend.status().code(), Code::kInvalidArgument);
  }
}

TEST(CpuBackend, PinsCallingThreadToFirstCore) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  // In a separate thread, so that the test's own thread is not pinned.
  std::thread([&] {
    const auto backend = MakeBackend({.threads = 1, .cores = {core}, .bf16_activations = false});
    Multiply(*backend, {1.f}, 1, 1, WeightType::kF32, {1.f});
    cpu_set_t now;
    CPU_ZERO(&now);
    ASSERT_EQ(sched_getaffinity(0, sizeof now, &now), 0);
    EXPECT_EQ(CPU_COUNT(&now), 1);
    EXPECT_TRUE(CPU_ISSET(core, &now));
  }).join();
}

}  // namespace
}  // namespace outrider
