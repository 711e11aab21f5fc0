// The products for which AVX-512 has dot instructions without a name in Highway 1.0.3: int8 with
// int8 activations (VNNI: 64 multiplications at once, four times an f32 multiply-add) and bf16 with
// bf16 activations (AVX512_BF16: 32). In both, each 32-bit word of a panel is multiplied with one
// word of x.
#if defined(__x86_64__)

#include "common/backend/cpu/avx512.h"
#include "common/backend/cpu/rounded_rows.h"

namespace outrider {
namespace {

// Rows at a time: their sums take 24 of 32 registers.
constexpr int kMaxRows = 12;
// As in float_matmul.cc: arithmetic is the bound, and the prefetch goes to the second-level cache.
constexpr int kPrefetchRows = 6;
constexpr size_t kPrefetchBytes = 8192;

// Panels so short that they end before the hardware prefetcher, which follows several streams, is
// well under way. Fewer rows then take the panels one by one with software prefetches, too: 3 rows
// of int8 weights in the third-level cache cost 1.15 times one row instead of 1.8. For long panels
// from memory this would cost 1.2 times as much as without (Zen 4).
constexpr size_t ShortPanelBytes(int rows) { return rows == 2 ? 16384 : 32768; }

struct Int8Dot {
  using Sum = Int32Sums;
  OUTRIDER_AVX512 static Sum Zero() { return Sum{}; }
  OUTRIDER_AVX512 static Sum Add(Sum sum, __m512i x, __m512i w) { return AddDot(sum, x, w); }
  // The values of 16 outputs. x has an offset of 128 steps.
  OUTRIDER_AVX512 static __m512 Value(const Product& product, int row, int output, Sum sum) {
    const int panel = output / kPanelOutputs, lane = output % kPanelOutputs;
    const __m512i offset = _mm512_load_si512(product.weights->sums(panel) + lane);
    const __m512i steps = _mm512_sub_epi32((__m512i)sum, _mm512_slli_epi32(offset, 7));
    const __m512 scale = _mm512_mul_ps(_mm512_load_ps(product.weights->scales(panel, 0) + lane),
                                       _mm512_set1_ps(product.x_scales[row]));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(steps), scale);
  }
};

struct Bf16Dot {
  using Sum = __m512;
  OUTRIDER_AVX512 static Sum Zero() { return _mm512_setzero_ps(); }
  OUTRIDER_AVX512 static Sum Add(Sum sum, __m512i x, __m512i w) {
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w);
  }
  OUTRIDER_AVX512 static __m512 Value(const Product&, int, int, Sum sum) { return sum; }
};

// Few rows process several panels at once: one panel's two chains would wait for their own latency.
template <class Dot, int kRows, int kPanels, bool kPrefetch>
OUTRIDER_AVX512 void Panels(const Product& product, int row, int panel) {
  const PanelMatrix& w = *product.weights;
  const size_t words = w.words();
  typename Dot::Sum sum[kRows][kPanels][2];
  const char* stream[kPanels];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
    stream[p] = w.panels() + (panel + p) * w.panel_bytes();
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) sum[r][p][0] = sum[r][p][1] = Dot::Zero();
  }
  const size_t stride = RoundedRowStride(words);
  const uint32_t* x = product.x_words + row * stride;
  for (size_t i = 0; i < words; ++i) {
    __m512i weights[kPanels][2];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const char* at = stream[p] + i * kPanelOutputs * 4;
      if constexpr (kPrefetch) {
        _mm_prefetch(at + kPrefetchBytes, _MM_HINT_T1);
        _mm_prefetch(at + kPrefetchBytes + 64, _MM_HINT_T1);
      }
      weights[p][0] = LoadOnce(at);
      weights[p][1] = LoadOnce(at + 64);
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512i x_i = _mm512_set1_epi32(static_cast<int>(x[r * stride + i]));
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        sum[r][p][0] = Dot::Add(sum[r][p][0], x_i, weights[p][0]);
        sum[r][p][1] = Dot::Add(sum[r][p][1], x_i, weights[p][1]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const int output = (panel + p) * kPanelOutputs;
      WriteOutputs(product, row + r, output, Dot::Value(product, row + r, output, sum[r][p][0]));
      WriteOutputs(product, row + r, output + 16,
                   Dot::Value(product, row + r, output + 16, sum[r][p][1]));
    }
  }
}

template <class Dot, int kRows>
void Rows(const Product& product, int row, int begin, int end) {
  constexpr int kPanels = kRows <= 2 ? 4 : kRows < kPrefetchRows ? 2 : 1;
  const bool prefetches = kRows >= kPrefetchRows ||
                          (kRows > 1 && product.weights->panel_bytes() <= ShortPanelBytes(kRows));
  int panel = begin;
  if (prefetches) {
    for (; panel < end; ++panel) Panels<Dot, kRows, 1, /*kPrefetch=*/true>(product, row, panel);
    return;
  }
  for (; panel + kPanels <= end; panel += kPanels) {
    Panels<Dot, kRows, kPanels, /*kPrefetch=*/false>(product, row, panel);
  }
  for (; panel < end; ++panel) Panels<Dot, kRows, 1, /*kPrefetch=*/false>(product, row, panel);
}

template <class Dot>
void SomeRows(const Product& product, int row, int count, int begin, int end) {
  switch (count) {
    case 1: return Rows<Dot, 1>(product, row, begin, end);
    case 2: return Rows<Dot, 2>(product, row, begin, end);
    case 3: return Rows<Dot, 3>(product, row, begin, end);
    case 4: return Rows<Dot, 4>(product, row, begin, end);
    case 5: return Rows<Dot, 5>(product, row, begin, end);
    case 6: return Rows<Dot, 6>(product, row, begin, end);
    case 7: return Rows<Dot, 7>(product, row, begin, end);
    case 8: return Rows<Dot, 8>(product, row, begin, end);
    case 9: return Rows<Dot, 9>(product, row, begin, end);
    case 10: return Rows<Dot, 10>(product, row, begin, end);
    case 11: return Rows<Dot, 11>(product, row, begin, end);
    default: return Rows<Dot, 12>(product, row, begin, end);
  }
}

template <class Dot>
void MatMul(const Product& product, int begin, int end) {
  if (product.rows <= kMaxRows) return SomeRows<Dot>(product, 0, product.rows, begin, end);
  // All rows use one panel while it is in the cache, in passes of about as many rows each.
  const int passes = (product.rows + kMaxRows - 1) / kMaxRows;
  for (int panel = begin; panel < end; ++panel) {
    for (int pass = 0, row = 0; pass < passes; ++pass) {
      const int rows = (product.rows - row + passes - pass - 1) / (passes - pass);
      SomeRows<Dot>(product, row, rows, panel, panel + 1);
      row += rows;
    }
  }
}

}  // namespace

void ChooseDotMatMul(CpuKernels& kernels) {
  if (!HasAvx512()) return;
  if (__builtin_cpu_supports("avx512vnni")) kernels.matmul_w8a8 = &MatMul<Int8Dot>;
  if (__builtin_cpu_supports("avx512bf16")) kernels.matmul_bf16_dot = &MatMul<Bf16Dot>;
}

}  // namespace outrider

#else

#include "common/backend/cpu/kernels.h"

namespace outrider {

void ChooseDotMatMul(CpuKernels&) {}

}  // namespace outrider

#endif
