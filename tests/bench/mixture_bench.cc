// The cost of 1, 2, 4 and 8 rows in a mixture of experts on the CPU, compared with a dense layer of
// the same active size: the rows of a draft use more experts than one row does, so verifying them
// is not free.
//
// Random bf16 weights, more of them than fit into any cache. Rows are independent, which is the
// worst case: neighbouring tokens of a text share experts. Both layers are timed alternately, in
// CPU time of the thread, and the printed figures are medians over the turns: on a busy machine
// only such a ratio is meaningful.
//   experts    average number of distinct experts that the rows used
//   x_one_row  time / time of one row
// Run on one core: taskset -c 0 mixture_bench
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "tests/bench/bench_support.h"

namespace outrider {
namespace {

constexpr size_t kColdBytes = size_t{272} << 20;  // several times any expected last-level cache
constexpr int kTurns = 21;
constexpr int kCallsOfATurn = 12;
constexpr int kMostRows = 8;
constexpr int kPoolRows = 512;  // inputs that the calls use in turn

struct Shape {
  const char* name;
  RouterShape router;
  int hidden, intermediate;  // per expert
};
// Half of the published widths, so that all layers fit into a small machine.
constexpr Shape kShapes[] = {
    {"8 experts, 2 of a row (as Mixtral)", {8, 2}, 1024, 1792},
    {"32 experts, 4 of a row (as gpt-oss)", {32, 4}, 1440, 1440},
    {"128 experts, 8 of a row (as Qwen 3)", {128, 8}, 1024, 384},
};

// Values of realistic magnitude: denormal bit patterns would measure something else.
std::unique_ptr<PackedMatrix> RandomMatrix(Backend& backend, int out, int in, WeightType type) {
  static uint32_t state = 1;
  std::vector<float> w(static_cast<size_t>(out) * in);
  for (float& v : w) {
    state = state * 1664525 + 1013904223;
    v = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-36f;
  }
  return Take(backend.Pack({w.data(), Dtype::kF32, {out, in}}, type));
}

struct MixtureLayer {
  std::unique_ptr<PackedMatrix> router;
  std::unique_ptr<ExpertMatrices> gate_up, down;
};
struct DenseLayer {
  std::unique_ptr<PackedMatrix> gate_up, down;
};

class Layers {
 public:
  Layers(Backend* backend, const Shape& shape) : backend_(*backend), s_(shape) {
    const size_t expert = size_t{6} * s_.hidden * s_.intermediate;  // bytes in bf16
    const auto layers = [](size_t layer_bytes) { return kColdBytes / layer_bytes + 1; };
    for (size_t i = 0; i < layers(expert * s_.router.experts); ++i) mixtures_.push_back(Mixture());
    for (size_t i = 0; i < layers(expert * s_.router.top_k); ++i) denses_.push_back(Dense());
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    pool_.resize(static_cast<size_t>(kPoolRows) * s_.hidden);
    for (float& v : pool_) v = normal(random);
    const size_t pairs = static_cast<size_t>(kMostRows) * s_.router.top_k;
    logits_.resize(static_cast<size_t>(kMostRows) * s_.router.experts);
    routing_.resize(ExpertRouting::Bytes(s_.router, kMostRows) / sizeof(int32_t));
    gate_up_.resize(pairs * 2 * s_.intermediate);
    gated_.resize(pairs * s_.intermediate);
    returned_.resize(pairs * s_.hidden);
    out_.resize(static_cast<size_t>(kMostRows) * s_.hidden);
  }

  // Runs the next mixture on the next rows. Returns the number of experts that they used.
  int RunMixture(int rows) {
    const MixtureLayer& layer = mixtures_[next_mixture_++ % mixtures_.size()];
    const float* const x = NextRows(rows);
    const ExpertRouting routing = ExpertRouting::At(routing_.data(), s_.router, rows);
    backend_.RouterLogits(*layer.router, x, rows, nullptr, logits_.data());
    backend_.RouteRows(logits_.data(), rows, s_.router, routing);
    backend_.ExpertMatMul(*layer.gate_up, s_.router, routing, rows, x, true, nullptr,
                          gate_up_.data());
    backend_.Glu(Activation::kSilu, gate_up_.data(), rows * s_.router.top_k, s_.intermediate,
                 gated_.data(), Consumers::kAny);
    backend_.ExpertMatMul(*layer.down, s_.router, routing, rows, gated_.data(), false, nullptr,
                          returned_.data());
    backend_.CombineExperts(returned_.data(), s_.router, routing, rows, s_.hidden, true,
                            out_.data());
    int met = 0;
    for (int e = 0; e < s_.router.experts; ++e) {
      met += routing.expert_begin[e + 1] > routing.expert_begin[e] ? 1 : 0;
    }
    return met;
  }

  void RunDense(int rows) {
    const DenseLayer& layer = denses_[next_dense_++ % denses_.size()];
    const int width = s_.router.top_k * s_.intermediate;
    backend_.MatMul(*layer.gate_up, NextRows(rows), rows, nullptr, false, gate_up_.data());
    backend_.Glu(Activation::kSilu, gate_up_.data(), rows, width, gated_.data(),
                 Consumers::kProducts);
    backend_.MatMul(*layer.down, gated_.data(), rows, nullptr, true, out_.data());
  }

 private:
  static constexpr WeightType kType = WeightType::kBf16;

  MixtureLayer Mixture() {
    MixtureLayer layer;
    layer.router = RandomMatrix(backend_, s_.router.experts, s_.hidden, WeightType::kF32);
    std::vector<std::unique_ptr<PackedMatrix>> gate_up, down;
    for (int e = 0; e < s_.router.experts; ++e) {
      gate_up.push_back(RandomMatrix(backend_, 2 * s_.intermediate, s_.hidden, kType));
      down.push_back(RandomMatrix(backend_, s_.hidden, s_.intermediate, kType));
    }
    layer.gate_up = Take(backend_.GroupExperts(std::move(gate_up)));
    layer.down = Take(backend_.GroupExperts(std::move(down)));
    return layer;
  }
  DenseLayer Dense() {
    const int width = s_.router.top_k * s_.intermediate;
    return {RandomMatrix(backend_, 2 * width, s_.hidden, kType),
            RandomMatrix(backend_, s_.hidden, width, kType)};
  }
  const float* NextRows(int rows) {
    next_row_ = next_row_ + rows > kPoolRows ? 0 : next_row_;
    const float* const x = pool_.data() + static_cast<size_t>(next_row_) * s_.hidden;
    next_row_ += rows;
    return x;
  }

  Backend& backend_;
  const Shape s_;
  std::vector<MixtureLayer> mixtures_;
  std::vector<DenseLayer> denses_;
  size_t next_mixture_ = 0, next_dense_ = 0;
  int next_row_ = 0;
  std::vector<float> pool_, logits_, gate_up_, gated_, returned_, out_;
  std::vector<int32_t> routing_;
};

struct Times {
  std::vector<double> seconds, over_one_row;
};

void Measure(Backend* backend, const Shape& shape) {
  Layers layers(backend, shape);
  std::printf("%s, hidden %d, intermediate %d\n", shape.name, shape.hidden, shape.intermediate);
  std::printf("%6s %14s %10s %10s %14s %10s\n", "rows", "mixture_us", "experts", "x_one_row",
              "dense_us", "x_one_row");
  const auto turn = [](auto&& call) {
    const double start = CpuSeconds();
    for (int i = 0; i < kCallsOfATurn; ++i) call();
    return (CpuSeconds() - start) / kCallsOfATurn;
  };
  for (const int rows : {1, 2, 4, 8}) {
    Times mixture, dense;
    double met = 0;
    for (int i = 0; i < kTurns; ++i) {
      const auto add = [](Times* times, double seconds, double one_row) {
        times->seconds.push_back(seconds);
        times->over_one_row.push_back(seconds / one_row);
      };
      const double mixture_seconds = turn([&] { met += layers.RunMixture(rows); });
      add(&mixture, mixture_seconds,
          rows == 1 ? mixture_seconds : turn([&] { layers.RunMixture(1); }));
      const double dense_seconds = turn([&] { layers.RunDense(rows); });
      add(&dense, dense_seconds, rows == 1 ? dense_seconds : turn([&] { layers.RunDense(1); }));
    }
    std::printf("%6d %14.0f %10.1f %10.2f %14.0f %10.2f\n", rows, Median(mixture.seconds) * 1e6,
                met / (kTurns * kCallsOfATurn), Median(mixture.over_one_row),
                Median(dense.seconds) * 1e6, Median(dense.over_one_row));
  }
}

}  // namespace
}  // namespace outrider

int main() {
  const auto backend = outrider::Take(outrider::CreateCpuBackend({}));
  for (const outrider::Shape& shape : outrider::kShapes) outrider::Measure(backend.get(), shape);
}
