// The ops of a mixture of experts: RouteRows, ExpertMatMul and CombineExperts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "tests/conformance/backends.h"

namespace outrider {
namespace {

struct MixtureCase {
  int rows;
  RouterShape shape;
};

void PrintTo(const MixtureCase& c, std::ostream* out) {
  *out << c.rows << " rows, " << c.shape.top_k << " of " << c.shape.experts << " experts"
       << (c.shape.normalizes ? ", normalised" : "");
}

constexpr MixtureCase kMixtureCases[] = {
    {1, {1, 1}},          {1, {8, 2}},   {7, {8, 2, false}},           {40, {4, 4}},
    {33, {60, 4, false}}, {9, {128, 8}}, {5, {kMaxExperts, 3, false}},
};

// A routing, copied to the host.
struct HostRouting {
  std::vector<int32_t> chosen, sorted_index, sorted_rows, expert_begin;
  std::vector<float> weights;
};

class ExpertsTest : public ConformanceTest {
 protected:
  ExpertRouting Route(const std::vector<float>& logits, int rows, const RouterShape& shape) {
    const size_t bytes = ExpertRouting::Bytes(shape, rows);
    Result<std::unique_ptr<Buffer>> buffer = backend_->Allocate(bytes);
    EXPECT_TRUE(buffer.ok());
    routings_.push_back(std::move(buffer).value());
    const ExpertRouting routing = ExpertRouting::At(routings_.back()->data(), shape, rows);
    backend_->RouteRows(Upload(logits), rows, shape, routing);
    return routing;
  }

  template <class T>
  std::vector<T> DownloadOf(const T* device, int count) {
    backend_->Wait();
    std::vector<T> values(static_cast<size_t>(count));
    backend_->CopyOut(values.data(), device, values.size() * sizeof(T));
    return values;
  }

  HostRouting DownloadRouting(const ExpertRouting& routing, int rows, const RouterShape& shape) {
    const int pairs = rows * shape.top_k;
    return {DownloadOf(routing.chosen, pairs), DownloadOf(routing.sorted_index, pairs),
            DownloadOf(routing.sorted_rows, pairs),
            DownloadOf(routing.expert_begin, shape.experts + 1),
            DownloadOf(routing.weights, pairs)};
  }

  // `experts` random matrices; their values are appended to `values`, one matrix after another.
  std::unique_ptr<ExpertMatrices> Experts(int experts, int out, int in, WeightType type,
                                          std::mt19937& random, std::vector<float>* values) {
    std::vector<std::unique_ptr<PackedMatrix>> matrices;
    for (int e = 0; e < experts; ++e) {
      const std::vector<float> w = RandomValues(out * in, random);
      values->insert(values->end(), w.begin(), w.end());
      matrices.push_back(backend_->Pack({w.data(), Dtype::kF32, {out, in}}, type).value());
    }
    return backend_->GroupExperts(std::move(matrices)).value();
  }

  // Products of random rows, with a bias and without, by row and by pair, are within `tolerance` of
  // those of each expert alone.
  void ExpectOwnProducts(const ExpertMatrices& experts, const RouterShape& shape, int rows,
                         double tolerance, std::mt19937& random) {
    const int in = experts.in_features(), out = experts.out_features();
    const int pairs = rows * shape.top_k;
    const ExpertRouting routing = Route(RandomValues(rows * shape.experts, random), rows, shape);
    const HostRouting host = DownloadRouting(routing, rows, shape);
    const std::vector<float> bias = RandomValues(shape.experts * out, random);
    for (const bool by_row : {true, false}) {
      const float* const x = Upload(RandomValues((by_row ? rows : pairs) * in, random));
      float* y = Poisoned(pairs * out);
      backend_->ExpertMatMul(experts, shape, routing, rows, x, by_row,
                             by_row ? Upload(bias) : nullptr, y);
      const std::vector<float> got = Download(y, pairs * out);
      for (int pair = 0; pair < pairs; ++pair) {
        const int expert = host.chosen[pair], index = host.sorted_index[pair];
        const std::vector<float> own(bias.begin() + expert * out,
                                     bias.begin() + (expert + 1) * out);
        float* alone = Poisoned(out);
        backend_->MatMul(experts[expert], x + (by_row ? pair / shape.top_k : index) * in, 1,
                         by_row ? Upload(own) : nullptr, false, alone);
        const std::vector<float> want = Download(alone, out);
        for (int o = 0; o < out; ++o) {
          ASSERT_NEAR(got[index * out + o], want[o], tolerance)
              << "output " << o << " of pair " << pair << " of " << pairs;
        }
      }
    }
  }

  std::vector<std::unique_ptr<Buffer>> routings_;
};

// Small integers, so that many are equal.
std::vector<float> TiedLogits(int count, std::mt19937& random) {
  std::vector<float> logits;
  for (int i = 0; i < count; ++i) logits.push_back(static_cast<float>(random() % 5) - 2.f);
  return logits;
}

TEST_P(ExpertsTest, ChoosesTheLargestLogits) {
  std::mt19937 random(1);
  for (const MixtureCase& c : kMixtureCases) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(::testing::PrintToString(c) + (tied ? ", tied" : ""));
      const auto& [rows, shape] = c;
      const int count = rows * shape.experts;
      const std::vector<float> logits =
          tied ? TiedLogits(count, random) : RandomValues(count, random);
      const HostRouting got = DownloadRouting(Route(logits, rows, shape), rows, shape);
      for (int r = 0; r < rows; ++r) {
        const float* const row_logits = &logits[r * shape.experts];
        std::vector<int32_t> order(shape.experts);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int a, int b) { return row_logits[a] > row_logits[b]; });
        double sum = 0;
        for (int i = 0; i < (shape.normalizes ? shape.top_k : shape.experts); ++i) {
          sum += std::exp(double{row_logits[order[i]]});
        }
        for (int i = 0; i < shape.top_k; ++i) {
          ASSERT_EQ(got.chosen[r * shape.top_k + i], order[i]) << "row " << r;
          const double want = std::exp(double{row_logits[order[i]]}) / sum;
          ASSERT_NEAR(got.weights[r * shape.top_k + i], want, 3e-6 * want + 1e-30) << "row " << r;
        }
      }
    }
  }
}

TEST_P(ExpertsTest, OrdersPairsByExpertAndRow) {
  std::mt19937 random(2);
  for (const MixtureCase& c : kMixtureCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto& [rows, shape] = c;
    const int pairs = rows * shape.top_k;
    const HostRouting got = DownloadRouting(
        Route(RandomValues(rows * shape.experts, random), rows, shape), rows, shape);
    EXPECT_EQ(got.expert_begin.front(), 0);
    EXPECT_EQ(got.expert_begin.back(), pairs);
    EXPECT_TRUE(std::is_sorted(got.expert_begin.begin(), got.expert_begin.end()));
    EXPECT_EQ(std::set<int32_t>(got.sorted_index.begin(), got.sorted_index.end()).size(),
              got.sorted_index.size());
    for (int pair = 0; pair < pairs; ++pair) {
      const int32_t index = got.sorted_index[pair], expert = got.chosen[pair];
      ASSERT_EQ(got.sorted_rows[index], pair / shape.top_k);
      ASSERT_GE(index, got.expert_begin[expert]);
      ASSERT_LT(index, got.expert_begin[expert + 1]);
    }
    for (int e = 0; e < shape.experts; ++e) {
      EXPECT_TRUE(std::is_sorted(got.sorted_rows.begin() + got.expert_begin[e],
                                 got.sorted_rows.begin() + got.expert_begin[e + 1]));
    }
  }
}

// Whatever the logits are, indices are within bounds; NaN and infinity show in the weights.
TEST_P(ExpertsTest, NonFiniteValuesStayInRow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const RouterShape shape = {5, 3};
  const std::vector<float> logits = {nan, nan,       nan,       nan, nan,  //
                                     1,   nan,       2,         3,   4,    //
                                     0,   -infinity, -infinity, 1,   2,    //
                                     1,   2,         infinity,  3,   4,    //
                                     1,   2,         3,         4,   5};
  const HostRouting got = DownloadRouting(Route(logits, 5, shape), 5, shape);
  EXPECT_EQ(got.chosen, (std::vector<int32_t>{0, 1, 2, 1, 4, 3, 4, 3, 0, 2, 4, 3, 4, 3, 2}));
  for (int i = 0; i < 15; ++i) {
    const int row = i / 3;
    EXPECT_EQ(std::isnan(got.weights[i]), row == 0 || row == 1 || row == 3) << i;
  }
}

double Dot(const float* w, const float* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += double{w[i]} * x[i];
  return sum;
}

TEST_P(ExpertsTest, ProductsEqualDouble) {
  std::mt19937 random(3);
  const RouterShape shape = {6, 2};
  for (const auto& [rows, out, in] : {std::tuple(1, 32, 64), std::tuple(5, 45, 37),
                                      std::tuple(30, 33, 70), std::tuple(9, 1, 300)}) {
    std::vector<float> w;
    const auto experts = Experts(shape.experts, out, in, WeightType::kF32, random, &w);
    const ExpertRouting routing = Route(RandomValues(rows * shape.experts, random), rows, shape);
    const HostRouting host = DownloadRouting(routing, rows, shape);
    const int pairs = rows * shape.top_k;
    const std::vector<float> bias = RandomValues(shape.experts * out, random);
    for (const bool by_row : {true, false}) {
      const std::vector<float> x = RandomValues((by_row ? rows : pairs) * in, random);
      float* y = Poisoned(pairs * out);
      backend_->ExpertMatMul(*experts, shape, routing, rows, Upload(x), by_row,
                             by_row ? Upload(bias) : nullptr, y);
      const std::vector<float> got = Download(y, pairs * out);
      for (int pair = 0; pair < pairs; ++pair) {
        const int expert = host.chosen[pair], index = host.sorted_index[pair];
        const float* const x_row = &x[(by_row ? pair / shape.top_k : index) * in];
        for (int o = 0; o < out; ++o) {
          const double want =
              Dot(&w[(expert * out + o) * in], x_row, in) + (by_row ? bias[expert * out + o] : 0.f);
          ASSERT_NEAR(got[index * out + o], want, 2e-4) << rows << " rows, pair " << pair;
        }
      }
    }
  }
}

// The products of every format, for few pairs of each expert and for many, compared with the
// product of one expert alone.
TEST_P(ExpertsTest, EveryFormatEqualsItsOwnProduct) {
  std::mt19937 random(4);
  const int out = 40, in = 130;
  const RouterShape shape = {3, 1};
  for (const int rows : {11, 60}) {
    for (const WeightType type : GetParam().weights) {
      std::vector<float> w;
      const auto experts = Experts(shape.experts, out, in, type, random, &w);
      // In f32 the order of the sums differs.
      ExpectOwnProducts(*experts, shape, rows, type == WeightType::kF32 ? 1e-4 : 0, random);
    }
  }
}

// Codes of every type, with offsets or without, also where experts differ in that, in the size of
// their groups or in the type.
TEST_P(ExpertsTest, CodesEqualTheirOwnProduct) {
  std::mt19937 random(8);
  struct Kind {
    CodeType type;
    WeightType weights;
    int group_size;
    bool has_offsets = false;
  };
  const Kind int4 = {CodeType::kInt4, WeightType::kW4A16, 32};
  const Kind int4_offsets = {CodeType::kInt4, WeightType::kW4A16, 32, true};
  const Kind int8 = {CodeType::kInt8, WeightType::kW8A16, 64};
  const Kind int8_offsets = {CodeType::kInt8, WeightType::kW8A16, 64, true};
  const Kind int8_rows = {CodeType::kInt8, WeightType::kW8A16, 128};
  const Kind fp8 = {CodeType::kFp8E4M3, WeightType::kFp8, 128};
  const Kind fp4 = {CodeType::kFp4E2M1, WeightType::kMxfp4, 32};
  const RouterShape shape = {2, 1};
  for (const auto& [first, second, equal] :
       {std::tuple(int4, int4, true), std::tuple(int4, int4_offsets, true),
        std::tuple(int8, int8_offsets, true), std::tuple(fp8, fp8, true),
        std::tuple(fp4, fp4, true), std::tuple(int8, int8_rows, false),
        std::tuple(int8_rows, fp8, false)}) {
    std::vector<std::unique_ptr<PackedMatrix>> matrices;
    for (const Kind& kind : {first, second}) {
      QuantizedMatrix matrix = {
          .type = kind.type, .rows = 33, .columns = 256, .group_size = kind.group_size};
      for (int i = 0; i < 33 * 256; ++i) {
        const bool has_four_bits = kind.type == CodeType::kInt4 || kind.type == CodeType::kFp4E2M1;
        const auto code = static_cast<uint8_t>(has_four_bits ? random() % 16 : random());
        matrix.codes.push_back(IsNanCode(kind.type, code) ? uint8_t{1} : code);
      }
      for (int64_t i = 0; i < 33 * matrix.groups(); ++i) {
        matrix.scales.push_back(std::ldexp(1.f, -6 - static_cast<int>(random() % 3)));
        if (kind.has_offsets) matrix.offsets.push_back(-0.1f);
      }
      matrices.push_back(backend_->Pack(matrix, kind.weights, WeightType::kBf16).value());
    }
    const auto experts = backend_->GroupExperts(std::move(matrices)).value();
    // Kinds that differ are multiplied one by one, without rounding activations.
    const double tolerance = equal || GetParam().bf16_activation_error == 0 ? 0 : 0.6;
    for (const int rows : {5, 40}) ExpectOwnProducts(*experts, shape, rows, tolerance, random);
  }
}

QuantizedMatrix Reordered(CodeType type, int out, int in, std::mt19937& random) {
  QuantizedMatrix matrix = {.type = type, .rows = out, .columns = in, .group_size = 32};
  const unsigned codes = type == CodeType::kInt4 ? 16 : 256;
  const float unit = 0.16f / static_cast<float>(codes);
  for (int i = 0; i < out * in; ++i) matrix.codes.push_back(random() % codes);
  for (int64_t i = 0; i < out * matrix.groups(); ++i) {
    matrix.scales.push_back(unit * static_cast<float>(1 + random() % 9));
    matrix.offsets.push_back(-0.05f);
  }
  matrix.column_order.resize(in);
  std::iota(matrix.column_order.begin(), matrix.column_order.end(), 0);
  std::shuffle(matrix.column_order.begin(), matrix.column_order.end(), random);
  return matrix;
}

// Experts may have different orders of their inputs.
TEST_P(ExpertsTest, CodesKeepTheirOrder) {
  std::mt19937 random(5);
  for (const auto& [codes, type, floats] :
       {std::tuple(CodeType::kInt4, WeightType::kW4A16, WeightType::kF32),
        std::tuple(CodeType::kInt8, WeightType::kW8A16, WeightType::kF32),
        std::tuple(CodeType::kInt8, WeightType::kW8A16, WeightType::kBf16)}) {
    // Of a weight that is widened to `floats`.
    const double rounding = floats == WeightType::kBf16 ? GetParam().bf16_activation_error : 0;
    const int out = 33, in = 96, rows = 7;
    const RouterShape shape = {4, 2};
    std::vector<std::unique_ptr<PackedMatrix>> matrices;
    std::vector<float> w(static_cast<size_t>(shape.experts * out * in));
    for (int e = 0; e < shape.experts; ++e) {
      const QuantizedMatrix matrix = Reordered(codes, out, in, random);
      for (int o = 0; o < out; ++o) {
        matrix.WidenRowInOrder(o, std::span(w).subspan((e * out + o) * in, in));
      }
      matrices.push_back(backend_->Pack(matrix, type, floats).value());
    }
    const auto experts = backend_->GroupExperts(std::move(matrices)).value();
    const ExpertRouting routing = Route(RandomValues(rows * shape.experts, random), rows, shape);
    const HostRouting host = DownloadRouting(routing, rows, shape);
    const std::vector<float> x = RandomValues(rows * in, random);
    float* y = Poisoned(rows * shape.top_k * out);
    backend_->ExpertMatMul(*experts, shape, routing, rows, Upload(x), true, nullptr, y);
    const std::vector<float> got = Download(y, rows * shape.top_k * out);
    for (int pair = 0; pair < rows * shape.top_k; ++pair) {
      const float* const x_row = &x[pair / shape.top_k * in];
      // Activations in 8 bits: half a step of each.
      double half_step = 0;
      for (int k = 0; k < in && GetParam().int8_activations; ++k) {
        half_step = std::max(half_step, std::fabs(x_row[k]) / 254.);
      }
      for (int o = 0; o < out; ++o) {
        const float* const w_row = &w[(host.chosen[pair] * out + o) * in];
        double sum_w = 0, magnitude = 0;
        for (int k = 0; k < in; ++k) {
          sum_w += std::fabs(w_row[k]);
          magnitude += std::fabs(double{w_row[k]} * x_row[k]);
        }
        ASSERT_NEAR(got[host.sorted_index[pair] * out + o], Dot(w_row, x_row, in),
                    2e-4 + 1.01 * half_step * sum_w + rounding * magnitude)
            << "pair " << pair;
      }
    }
  }
}

// A whole mixture of x: router, one projection and the sum.
TEST_P(ExpertsTest, RowBitsIgnoreTheBatch) {
  std::mt19937 random(6);
  const int out = 48, in = 72, rows = 37;
  for (const RouterShape& shape : {RouterShape{4, 2}, RouterShape{16, 3, false}}) {
    for (const WeightType type : GetParam().weights) {
      std::vector<float> w;
      const auto experts = Experts(shape.experts, out, in, type, random, &w);
      const std::vector<float> logits = RandomValues(rows * shape.experts, random);
      const std::vector<float> x = RandomValues(rows * in, random);
      const auto mixture = [&](int first, int count) {
        const ExpertRouting routing = Route({logits.begin() + first * shape.experts,
                                             logits.begin() + (first + count) * shape.experts},
                                            count, shape);
        float* y = Poisoned(count * shape.top_k * out);
        backend_->ExpertMatMul(*experts, shape, routing, count,
                               Upload({x.begin() + first * in, x.begin() + (first + count) * in}),
                               true, nullptr, y);
        float* sum = Poisoned(count * out);
        backend_->CombineExperts(y, shape, routing, count, out, false, sum);
        return Download(sum, count * out);
      };
      const std::vector<float> want = mixture(0, rows);
      for (const int count : {1, 2, 5, 8, 9, 20}) {
        for (const int first : {0, 3, rows - count}) {
          const std::vector<float> got = mixture(first, count);
          ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin() + first * out))
              << static_cast<int>(type) << " rows " << first << " to " << first + count;
        }
      }
    }
  }
}

TEST_P(ExpertsTest, AddsUpWhatExpertsReturn) {
  std::mt19937 random(7);
  for (const MixtureCase& c : kMixtureCases) {
    const auto& [rows, shape] = c;
    const int n = 37, pairs = rows * shape.top_k;
    const ExpertRouting routing = Route(RandomValues(rows * shape.experts, random), rows, shape);
    const HostRouting host = DownloadRouting(routing, rows, shape);
    const std::vector<float> y = RandomValues(pairs * n, random);
    const std::vector<float> before = RandomValues(rows * n, random);
    for (const bool accumulate : {false, true}) {
      float* out = accumulate ? Upload(before) : Poisoned(rows * n);
      backend_->CombineExperts(Upload(y), shape, routing, rows, n, accumulate, out);
      const std::vector<float> got = Download(out, rows * n);
      for (int i = 0; i < rows * n; ++i) {
        double want = accumulate ? before[i] : 0;
        for (int k = 0; k < shape.top_k; ++k) {
          const int pair = i / n * shape.top_k + k;
          want += double{host.weights[pair]} * y[host.sorted_index[pair] * n + i % n];
        }
        ASSERT_NEAR(got[i], want, 1e-5) << ::testing::PrintToString(c);
      }
    }
  }
}

OUTRIDER_FOR_ALL_BACKENDS(ExpertsTest);

}  // namespace
}  // namespace outrider
