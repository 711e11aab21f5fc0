// The backends on which every conformance test runs, and helpers to use them: a new backend is one
// more entry of AllBackends().
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "gtest/gtest.h"

namespace outrider {

struct BackendEntry {
  std::string name;
  // Returns null when this machine cannot run the backend, and the test is skipped.
  std::function<std::unique_ptr<Backend>()> create;
  // Relative error with which a product with bf16 weights may read its activations.
  double bf16_activation_error = 0;
  std::vector<WeightType> weights = {WeightType::kBf16, WeightType::kF32, WeightType::kW8A16,
                                     WeightType::kW8A8, WeightType::kW4A16};
  // False if products of many rows are a library's, which does not guarantee equal bits.
  bool batch_invariant_products = true;
  // Whether products with integer codes and MXFP4 round activations to 8 bits.
  bool int8_activations = false;
};

inline void PrintTo(const BackendEntry& entry, std::ostream* out) { *out << entry.name; }

std::vector<BackendEntry> AllBackends();

// A test fixture with the backend as its parameter.
class ConformanceTest : public ::testing::TestWithParam<BackendEntry> {
 protected:
  void SetUp() override;

  // Device memory initialised with `values`.
  float* Upload(const std::vector<float>& values);
  // `count` floats of device memory, all NaN, which shows if an op leaves or reads one.
  float* Poisoned(size_t count);
  std::vector<float> Download(const float* device, size_t count);

  std::unique_ptr<Backend> backend_;

 private:
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

std::string BackendName(const ::testing::TestParamInfo<BackendEntry>& info);

// Normal values, one in sixteen of them ten times larger: outliers reveal a loss of precision.
std::vector<float> RandomValues(size_t count, std::mt19937& random);

#define OUTRIDER_FOR_ALL_BACKENDS(suite) \
  INSTANTIATE_TEST_SUITE_P(On, suite, ::testing::ValuesIn(AllBackends()), BackendName)

}  // namespace outrider
