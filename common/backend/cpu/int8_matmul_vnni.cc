// The int8 product with AVX-512 VNNI, which Highway 1.0.3 has no name for. One instruction
// multiplies 64 pairs: four times the work of an f32 multiply-add.
#include "common/backend/cpu/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "common/backend/cpu/int8_finish.h"
#include "hwy/targets.h"

#define OUTRIDER_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace outrider {
namespace {

constexpr int kMaxRows = 8;
// Ahead of the hardware prefetcher, which stops at every 4 KB page.
constexpr int kPrefetchBytes = 1536;

// Few rows take several panels at once: one panel's two chains would wait for their own latency.
template <int kRows, int kPanels>
OUTRIDER_VNNI void Panels(const Product& product, int row, int panel) {
  const PanelMatrix& w = *product.weights;
  const int words = w.words();
  __m512i sum[kRows][kPanels][2];
  const char* stream[kPanels];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p) {
    stream[p] = w.panels() + (panel + p) * w.panel_bytes();
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r][p][0] = sum[r][p][1] = _mm512_setzero_si512();
  }
  const uint8_t* x = product.x_steps + static_cast<size_t>(row) * words * 4;
  for (size_t i = 0; i < static_cast<size_t>(words); ++i) {
    __m512i weights[kPanels][2];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const char* at = stream[p] + i * kPanelOutputs * 4;
      _mm_prefetch(at + kPrefetchBytes, _MM_HINT_T0);
      _mm_prefetch(at + kPrefetchBytes + 64, _MM_HINT_T0);
      weights[p][0] = _mm512_load_si512(at);
      weights[p][1] = _mm512_load_si512(at + 64);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t quad;
      std::memcpy(&quad, x + (static_cast<size_t>(r) * words + i) * 4, sizeof quad);
      const __m512i quads = _mm512_set1_epi32(quad);
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) {
        sum[r][p][0] = _mm512_dpbusd_epi32(sum[r][p][0], quads, weights[p][0]);
        sum[r][p][1] = _mm512_dpbusd_epi32(sum[r][p][1], quads, weights[p][1]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      alignas(64) int32_t sums[kPanelOutputs];
      _mm512_store_si512(sums, sum[r][p][0]);
      _mm512_store_si512(sums + 16, sum[r][p][1]);
      FinishInt8(product, row + r, panel + p, sums);
    }
  }
}

template <int kRows>
void Rows(const Product& product, int row, int begin, int end) {
  constexpr int kPanels = kRows <= 2 ? 4 : kRows <= 4 ? 2 : 1;
  int panel = begin;
  for (; panel + kPanels <= end; panel += kPanels) Panels<kRows, kPanels>(product, row, panel);
  for (; panel < end; ++panel) Panels<kRows, 1>(product, row, panel);
}

void SomeRows(const Product& product, int row, int count, int begin, int end) {
  switch (count) {
    case 1: return Rows<1>(product, row, begin, end);
    case 2: return Rows<2>(product, row, begin, end);
    case 3: return Rows<3>(product, row, begin, end);
    case 4: return Rows<4>(product, row, begin, end);
    case 5: return Rows<5>(product, row, begin, end);
    case 6: return Rows<6>(product, row, begin, end);
    case 7: return Rows<7>(product, row, begin, end);
    default: return Rows<8>(product, row, begin, end);
  }
}

void MatMulInt8Vnni(const Product& product, int begin, int end) {
  if (product.rows <= kMaxRows) return SomeRows(product, 0, product.rows, begin, end);
  for (int panel = begin; panel < end; ++panel) {
    for (int row = 0; row < product.rows; row += kMaxRows) {
      SomeRows(product, row, std::min(kMaxRows, product.rows - row), panel, panel + 1);
    }
  }
}

}  // namespace

void ChooseInt8MatMulVnni(CpuKernels& kernels) {
  // Highway's mask counts too, so that a test of narrower machines does not meet AVX-512 here.
  if ((hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512vnni")) {
    kernels.matmul_int8 = &MatMulInt8Vnni;
  }
}

}  // namespace outrider

#else

namespace outrider {

void ChooseInt8MatMulVnni(CpuKernels&) {}

}  // namespace outrider

#endif
