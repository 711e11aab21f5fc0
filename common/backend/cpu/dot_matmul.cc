// The products for which AVX-512 has dot instructions without a name in Highway 1.0.3: int8 with
// int8 activations (VNNI: 64 multiplications at once, four times an f32 multiply-add) and bf16 with
// bf16 activations (AVX512_BF16: 32). In both, each 32-bit word of a panel is multiplied with one
// word of x.
#if defined(__x86_64__)

// g++ 12 warns about the undefined operands inside its own intrinsics.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>

#include "common/backend/cpu/kernels.h"
#include "hwy/targets.h"

#define OUTRIDER_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")))

namespace outrider {
namespace {

constexpr int kMaxRows = 8;
// As in float_matmul.cc: arithmetic is the bound, and the prefetch goes to the second-level cache.
constexpr int kPrefetchRows = 5;
constexpr size_t kPrefetchBytes = 8192;

// Panels so short that they end before the hardware prefetcher, which follows several streams, is
// well under way. Fewer rows then take the panels one by one with software prefetches, too: 3 rows
// of int8 weights in the third-level cache cost 1.15 times one row instead of 1.8. For long panels
// from memory this would cost 1.2 times as much as without (Zen 4).
constexpr size_t ShortPanelBytes(int rows) { return rows == 2 ? 16384 : 32768; }

struct Int8Dot {
  using Sum = __m512i;
  OUTRIDER_AVX512 static Sum Zero() { return _mm512_setzero_si512(); }
  OUTRIDER_AVX512 static Sum Add(Sum sum, __m512i x, __m512i w) {
    return _mm512_dpbusd_epi32(sum, x, w);
  }
  // The values of 16 outputs. x has an offset of 128 steps.
  OUTRIDER_AVX512 static __m512 Value(const Product& product, int row, int output, Sum sum) {
    const int panel = output / kPanelOutputs, lane = output % kPanelOutputs;
    const __m512i offset = _mm512_load_si512(product.weights->sums(panel) + lane);
    const __m512i steps = _mm512_sub_epi32(sum, _mm512_slli_epi32(offset, 7));
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

// Writes the 16 outputs of one row, as far as they exist.
OUTRIDER_AVX512 inline void Finish(const Product& product, int row, int output, __m512 value) {
  const int out = product.weights->out_features();
  const int count = std::clamp(out - output, 0, 16);
  const auto mask = static_cast<__mmask16>((1u << count) - 1);
  float* y = product.y + static_cast<size_t>(row) * out + output;
  if (product.bias != nullptr) {
    value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, product.bias + output));
  }
  if (product.accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), value);
  _mm512_mask_storeu_ps(y, mask, value);
}

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
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r][p][0] = sum[r][p][1] = Dot::Zero();
  }
  const uint32_t* x = product.x_words + row * words;
  for (size_t i = 0; i < words; ++i) {
    __m512i weights[kPanels][2];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const char* at = stream[p] + i * kPanelOutputs * 4;
      if constexpr (kPrefetch) {
        _mm_prefetch(at + kPrefetchBytes, _MM_HINT_T1);
        _mm_prefetch(at + kPrefetchBytes + 64, _MM_HINT_T1);
      }
      weights[p][0] = _mm512_load_si512(at);
      weights[p][1] = _mm512_load_si512(at + 64);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i x_i = _mm512_set1_epi32(static_cast<int>(x[r * words + i]));
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        sum[r][p][0] = Dot::Add(sum[r][p][0], x_i, weights[p][0]);
        sum[r][p][1] = Dot::Add(sum[r][p][1], x_i, weights[p][1]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const int output = (panel + p) * kPanelOutputs;
      Finish(product, row + r, output, Dot::Value(product, row + r, output, sum[r][p][0]));
      Finish(product, row + r, output + 16,
             Dot::Value(product, row + r, output + 16, sum[r][p][1]));
    }
  }
}

template <class Dot, int kRows>
void Rows(const Product& product, int row, int begin, int end) {
  constexpr int kPanels = kRows <= 2 ? 4 : kRows <= 4 ? 2 : 1;
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
    default: return Rows<Dot, 8>(product, row, begin, end);
  }
}

template <class Dot>
void MatMul(const Product& product, int begin, int end) {
  if (product.rows <= kMaxRows) return SomeRows<Dot>(product, 0, product.rows, begin, end);
  // All rows use one panel while it is in the cache.
  for (int panel = begin; panel < end; ++panel) {
    for (int row = 0; row < product.rows; row += kMaxRows) {
      SomeRows<Dot>(product, row, std::min(kMaxRows, product.rows - row), panel, panel + 1);
    }
  }
}

}  // namespace

void ChooseDotMatMul(CpuKernels& kernels) {
  // Highway's mask is checked as well, so that a test of narrower machines does not use AVX-512.
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0) return;
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
