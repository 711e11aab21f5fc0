// The product of 4-bit codes with activations in fixed point, by the dot instruction of AVX-512
// VNNI: 64 multiplications of a code with 8 bits of an activation at once. Three of them multiply
// 24 bits, in fewer instructions than it takes to widen the codes to floats.
//
// An activation is an integer number of steps. The step is a power of two that the activations of
// one row and one group of inputs share: the smallest with which the largest of them has 127 * 2^16
// steps or fewer. So each is off by at most half a step, 2^-22.98 of the largest, and those that
// have no bits below the step are exact. The integer is split into three digits from -128 to 127;
// the codes' products with each digit are summed over the group in integers, without error.
// A row with the sums in floats has an error of the same size, in 128 roundings a group.
#if defined(__x86_64__)

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/backend/cpu/avx512.h"
#include "common/backend/cpu/kernels.h"
#include "common/backend/cpu/rounded_rows.h"

namespace outrider {
namespace {

// Rows at a time: their sums take 24 of 32 registers, the codes 4.
constexpr int kRowsOfTile = 4;
constexpr int kDigits = kFixedDigits;
constexpr int kVectors = 2;                  // of 16 outputs, in a panel
constexpr int kWordInputs = 8;               // inputs of a word of codes
constexpr int kXWords = kFixedWordsPerWord;  // words of x beside a word of codes
// As in float_matmul.cc: from the second row on arithmetic is the bound, and one row is read faster
// without prefetches (0.93 of a streaming read, 0.85 with; Zen 4).
constexpr size_t kFixedPrefetchBytes = 4096;

// The codes of even inputs and of odd ones, a byte each.
struct Nibbles {
  __m512i even[kVectors], odd[kVectors];
};

OUTRIDER_AVX512_INLINE Nibbles LoadNibbles(const char* at) {
  const __m512i low = _mm512_set1_epi8(15);
  Nibbles codes;
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const __m512i both = LoadOnce(at + 64 * v);
    codes.even[v] = _mm512_and_si512(both, low);
    codes.odd[v] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
  }
  return codes;
}

// Sums of one row over one group: by digit, for each output of the panel.
using GroupSums = int32_t[kDigits][kPanelOutputs];

// Adds one group's sums, with its scales and offsets, to the row's totals.
OUTRIDER_AVX512_INLINE void AddGroup(const Product& product, int row, int panel, int group,
                                     const GroupSums& sums, float* totals) {
  const PanelMatrix& w = *product.weights;
  const size_t at = static_cast<size_t>(row) * w.groups() + group;
  const __m512 step = _mm512_set1_ps(product.x_scales[at]);
#pragma GCC unroll 2
  for (int lane = 0; lane < kPanelOutputs; lane += 16) {
    __m512 digit[kDigits];
#pragma GCC unroll 3
    for (int d = 0; d < kDigits; ++d) {
      digit[d] = _mm512_cvtepi32_ps(_mm512_load_si512(sums[d] + lane));
    }
    const __m512 low = _mm512_fmadd_ps(digit[1], _mm512_set1_ps(0x1p8f), digit[0]);
    const __m512 steps = _mm512_fmadd_ps(digit[2], _mm512_set1_ps(0x1p16f), low);
    const __m512 scale = _mm512_mul_ps(_mm512_load_ps(w.scales(panel, group) + lane), step);
    __m512 total = _mm512_fmadd_ps(steps, scale, _mm512_load_ps(totals + lane));
    if (w.has_offsets()) {
      const __m512 x_sum = _mm512_set1_ps(product.x_sums[at]);
      total = _mm512_fmadd_ps(x_sum, _mm512_load_ps(w.offsets(panel, group) + lane), total);
    }
    _mm512_store_ps(totals + lane, total);
  }
}

// Sums the products of `words` words of codes with kRows rows of x.
template <int kRows>
OUTRIDER_AVX512_INLINE void SumGroup(const char* codes, const uint32_t* x, size_t stride, int words,
                                     GroupSums* sums) {
  Int32Sums sum[kRows][kDigits][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int d = 0; d < kDigits; ++d) sum[r][d][0] = sum[r][d][1] = Int32Sums{};
  }
  for (int i = 0; i < words; ++i, codes += 4 * kPanelOutputs, x += kXWords) {
    if constexpr (kRows > 1) {
      _mm_prefetch(codes + kFixedPrefetchBytes, _MM_HINT_T1);
      _mm_prefetch(codes + kFixedPrefetchBytes + 64, _MM_HINT_T1);
    }
    const Nibbles nibbles = LoadNibbles(codes);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const uint32_t* const of_row = x + r * stride;
#pragma GCC unroll 3
      for (int d = 0; d < kDigits; ++d) {
        const __m512i even = _mm512_set1_epi32(static_cast<int>(of_row[2 * d]));
        const __m512i odd = _mm512_set1_epi32(static_cast<int>(of_row[2 * d + 1]));
        sum[r][d][0] = AddDot(sum[r][d][0], nibbles.even[0], even);
        sum[r][d][1] = AddDot(sum[r][d][1], nibbles.even[1], even);
        sum[r][d][0] = AddDot(sum[r][d][0], nibbles.odd[0], odd);
        sum[r][d][1] = AddDot(sum[r][d][1], nibbles.odd[1], odd);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int d = 0; d < kDigits; ++d) {
      _mm512_store_si512(sums[r][d], (__m512i)sum[r][d][0]);
      _mm512_store_si512(sums[r][d] + 16, (__m512i)sum[r][d][1]);
    }
  }
}

template <int kRows>
OUTRIDER_AVX512 void Panel(const Product& product, int row, int panel) {
  const PanelMatrix& w = *product.weights;
  const size_t stride = RoundedRowStride(static_cast<size_t>(w.words()) * kXWords);
  const int group_words = (w.group_size() + kWordInputs - 1) / kWordInputs;
  const char* codes = w.panels() + panel * w.panel_bytes();
  const uint32_t* x = product.x_words + row * stride;
  alignas(64) float totals[kRows][kPanelOutputs] = {};
  int left = w.words();
  alignas(64) GroupSums sums[kRows];
  for (int group = 0; group < w.groups(); ++group) {
    const int words = std::min(group_words, left);
    left -= words;
    SumGroup<kRows>(codes, x, stride, words, sums);
    codes += static_cast<size_t>(words) * 4 * kPanelOutputs;
    x += static_cast<size_t>(words) * kXWords;
    for (int r = 0; r < kRows; ++r) AddGroup(product, row + r, panel, group, sums[r], totals[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    const int output = panel * kPanelOutputs;
    WriteOutputs(product, row + r, output, _mm512_load_ps(totals[r]));
    WriteOutputs(product, row + r, output + 16, _mm512_load_ps(totals[r] + 16));
  }
}

void MatMulW4Fixed(const Product& product, int begin, int end) {
  for (int panel = begin; panel < end; ++panel) {
    for (int row = 0; row < product.rows; row += kRowsOfTile) {
      switch (product.rows - row) {
        case 1: Panel<1>(product, row, panel); break;
        case 2: Panel<2>(product, row, panel); break;
        case 3: Panel<3>(product, row, panel); break;
        default: Panel<4>(product, row, panel); break;
      }
    }
  }
}

// Steps of one group; returns their size. x_words are as in Product.
OUTRIDER_AVX512 float FixGroup(const float* x, int count, uint32_t* words) {
  // Bits of floats without their sign are in the order of their values, NaN last.
  __m512i maxima = _mm512_setzero_si512();
  for (int i = 0; i < count; i += 16) {
    const auto mask = static_cast<__mmask16>((1u << std::min(count - i, 16)) - 1);
    const __m512i bits = _mm512_maskz_loadu_epi32(mask, x + i);
    maxima = _mm512_max_epu32(maxima, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
  }
  const uint32_t max = _mm512_reduce_max_epu32(maxima);
  // The exponent of the largest value once it is rounded up to 127/128 of a power of two. Steps are
  // no smaller than the smallest normal float: values below count as zero.
  const uint32_t exponent = std::max((max + 0x1ffff) >> 23, 23u);
  const __m512 inverse = _mm512_set1_ps(std::bit_cast<float>((276 - exponent) << 23));

  // Of four neighbouring inputs: for each digit, those of the even two, then of the odd two.
  const __m512i by_digit =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, -1, -1, -1, -1));
  // These pairs of eight neighbours side by side.
  const __m512i by_word = _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 29, 21, 28, 20, 27, 19, 26, 18,
                                           25, 17, 24, 16, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0);
  const __m512i half = _mm512_set1_epi32(0x808080);
  for (int i = 0; i < count; i += 16) {
    const int now = std::min(count - i, 16);
    const __m512 values = _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << now) - 1), x + i);
    const __m512i steps = _mm512_cvtps_epi32(_mm512_mul_ps(values, inverse));
    const __m512i digits = _mm512_xor_si512(_mm512_add_epi32(steps, half), half);
    const __m512i ordered =
        _mm512_permutexvar_epi16(by_word, _mm512_shuffle_epi8(digits, by_digit));
    const auto stored = static_cast<__mmask16>(now > kWordInputs ? 0xfff : 0x3f);
    _mm512_mask_storeu_epi32(words + static_cast<size_t>(i / kWordInputs) * kXWords, stored,
                             ordered);
  }
  if (max >= 0x7f800000) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>((exponent - 22) << 23);
}

void FixRow(const float* x, int in, int group_size, uint32_t* words, float* steps) {
  for (int begin = 0; begin < in; begin += group_size) {
    const int count = std::min(group_size, in - begin);
    *steps++ = FixGroup(x + begin, count, words);
    words += static_cast<size_t>(count + kWordInputs - 1) / kWordInputs * kXWords;
  }
}

}  // namespace

void ChooseFixedMatMul(CpuKernels& kernels) {
  if (!HasAvx512() || !__builtin_cpu_supports("avx512vnni")) return;
  kernels.matmul_w4_fixed = &MatMulW4Fixed;
  kernels.fix_row = &FixRow;
}

}  // namespace outrider

#else

#include "common/backend/cpu/kernels.h"

namespace outrider {

void ChooseFixedMatMul(CpuKernels&) {}

}  // namespace outrider

#endif
