#include "tests/conformance/backends.h"

#include <limits>

#include "common/backend/create_backend.h"
#include "hwy/targets.h"
#include "tests/support/cuda_emulation/emulated_backend.h"

namespace outrider {
namespace {

const std::vector<WeightType> kDeviceWeights = {
    WeightType::kBf16, WeightType::kF16, WeightType::kF32, WeightType::kW8A16, WeightType::kW4A16};

std::unique_ptr<Backend> Take(Result<std::unique_ptr<Backend>> backend) {
  return backend.ok() ? std::move(backend).value() : nullptr;
}

std::unique_ptr<Backend> Cpu(int threads, bool bf16_activations = false,
                             bool int8_activations = false) {
  return Take(CreateCpuBackend({.threads = threads,
                                .cores = {},
                                .bf16_activations = bf16_activations,
                                .int8_activations = int8_activations}));
}

// Simulates a machine whose best instruction set is `target`.
std::unique_ptr<Backend> CpuWithTarget(int64_t target) {
  if ((hwy::SupportedTargets() & target) == 0) return nullptr;
  hwy::SetSupportedTargetsForTest(target);
  auto backend = Cpu(1);
  hwy::SetSupportedTargetsForTest(0);
  return backend;
}

// Under the thread sanitizer, which makes fibers many times slower, only cuda_backend_test looks
// for races in the kernels.
std::unique_ptr<Backend> CudaEmulated() {
#if defined(OUTRIDER_THREAD_SANITIZER)
  return nullptr;
#else
  return Take(CreateEmulatedCudaBackend());
#endif
}

}  // namespace

std::vector<BackendEntry> AllBackends() {
  return {
      {"Cpu", [] { return Cpu(1); }},
      // bf16 has 8 significant bits.
      {"CpuBf16Activations", [] { return Cpu(1, true); }, 0x1p-8},
      {"CpuInt8Activations",
       [] { return Cpu(1, false, true); },
       0,
       {WeightType::kW4A16, WeightType::kW8A16},
       true,
       true},
      {"CpuThreeThreads", [] { return Cpu(3); }},
      {"CpuAvx2", [] { return CpuWithTarget(HWY_AVX2); }},
      {"CpuSse4", [] { return CpuWithTarget(HWY_SSE4); }},
      {"CpuPlain", [] { return CpuWithTarget(HWY_SCALAR | HWY_EMU128); }},
      {"CudaEmulated", [] { return CudaEmulated(); }, 0x1p-8, kDeviceWeights},
      {"CudaDevice", [] { return Take(CreateBackend("cuda:0", {})); }, 0x1p-8, kDeviceWeights,
       false},
  };
}

void ConformanceTest::SetUp() {
  backend_ = GetParam().create();
  if (backend_ == nullptr) GTEST_SKIP() << GetParam().name << " does not run here: skipped";
}

float* ConformanceTest::Upload(const std::vector<float>& values) {
  Result<std::unique_ptr<Buffer>> buffer = backend_->Allocate(values.size() * sizeof(float));
  EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
  buffers_.push_back(std::move(buffer).value());
  backend_->CopyIn(buffers_.back()->data(), values.data(), values.size() * sizeof(float));
  return buffers_.back()->floats();
}

float* ConformanceTest::Poisoned(size_t count) {
  return Upload(std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()));
}

std::vector<float> ConformanceTest::Download(const float* device, size_t count) {
  backend_->Wait();
  std::vector<float> values(count);
  backend_->CopyOut(values.data(), device, count * sizeof(float));
  return values;
}

std::string BackendName(const ::testing::TestParamInfo<BackendEntry>& info) {
  return info.param.name;
}

std::vector<float> RandomValues(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random) * (random() % 16 == 0 ? 10.f : 1.f);
  return values;
}

}  // namespace outrider
