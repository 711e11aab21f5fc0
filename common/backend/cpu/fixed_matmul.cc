// The product of 4-bit codes, 8-bit codes and MXFP4 with activations in fixed point, by the dot
// instruction of AVX-512 VNNI: 64 multiplications of a code with 8 bits of an activation at once.
// Three of them multiply 24 bits, in fewer instructions than it takes to widen the codes to floats.
//
// An activation is an integer number of steps, whose size the activations of one row and one group
// of inputs share. The integer is split into digits from -128 to 127; the codes' products with each
// digit are summed over the group in integers, without error. A row's result does not depend on
// the other rows.
//
// With three digits the step is the smallest power of two with which the largest activation has
// 127 * 2^16 steps or fewer. So each is off by at most half a step, 2^-22.98 of the largest, and
// those without bits below the step are exact. That is as accurate as sums in floats.
// With one digit the largest activation has 127 steps.
//
// The instruction takes codes without a sign, so those of 8 bits are read as 128 more than they
// are. MXFP4's values are halves of integers: a table holds twice the value, plus 12. The sums
// start at what that adds up to, with the opposite sign. On the way they may wrap around; the sum
// of all products is below 2^31 in groups of up to kMaxFixedGroup inputs.
#if defined(__x86_64__)

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/backend/cpu/avx512.h"
#include "common/backend/cpu/kernels.h"
#include "common/backend/cpu/rounded_rows.h"
#include "common/math/fp4.h"

namespace outrider {
namespace {

// Rows at a time: their sums take 24 of 32 registers, the codes 4.
constexpr int RowsOfTile(int digits) { return 12 / digits; }
constexpr int kVectors = 2;  // of 16 outputs, in a panel
// As in float_matmul.cc: where arithmetic is the bound. One row is read faster without prefetches
// (0.93 of a streaming read, 0.85 with; Zen 4).
constexpr bool PrefetchesFixed(int digits, int rows) { return digits * rows > 3; }
constexpr size_t kFixedPrefetchBytes = 8192;
// The prefetch distance of scales, in elements of whatever type: 32 groups of a panel. Weights in
// groups of 32 inputs gain a tenth by it.
constexpr size_t kScalesAhead = 1024;

// A panel's word of 4-bit codes: a byte for each, those of even inputs and those of odd ones.
struct FourBitWord {
  static constexpr int kParts = 2;  // of four inputs

  OUTRIDER_AVX512_INLINE void Split(const char* at) {
    const __m512i low = _mm512_set1_epi8(15);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const __m512i both = LoadOnce(at + 64 * v);
      parts[0][v] = _mm512_and_si512(both, low);
      parts[1][v] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    }
  }

  // Orders the digits of 16 inputs, of which each has 32 bits, as the product reads them where the
  // first input is in a word's lowest byte.
  template <int kDigits>
  OUTRIDER_AVX512_INLINE static __m512i FirstLowest(__m512i digits) {
    // Of four neighbouring inputs: for each digit, those of the even two, then of the odd two.
    const __m512i by_digit = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, -1, -1, -1, -1));
    // These pairs of eight neighbours side by side; the second eight 6 words further.
    const __m512i by_word =
        _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 29, 21, 28, 20, 27, 19, 26, 18, 25, 17, 24, 16, 13,
                         5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0);
    const __m512i ordered =
        _mm512_permutexvar_epi16(by_word, _mm512_shuffle_epi8(digits, by_digit));
    return kDigits == 1 ? _mm512_maskz_compress_epi32(3 | 3 << 6, ordered) : ordered;
  }

  __m512i parts[kParts][kVectors];
};

struct Codes4 : FourBitWord {
  static constexpr WeightType kType = WeightType::kW4A16;
  static constexpr int kZero = 0;  // how much more a byte is than what it is worth

  OUTRIDER_AVX512_INLINE void Load(const char* at) { Split(at); }

  template <int kDigits>
  OUTRIDER_AVX512_INLINE static __m512i Order(__m512i digits) {
    return FirstLowest<kDigits>(digits);
  }
};

// 4-bit floats, whose words have the first input in the highest byte.
struct CodesFp4 : FourBitWord {
  static constexpr WeightType kType = WeightType::kMxfp4;
  static constexpr int kZero = 12;

  OUTRIDER_AVX512_INLINE void Load(const char* at) {
    Split(at);
    alignas(16) static constexpr int8_t kTwice[16] = {
        kZero + TwiceFp4(0),  kZero + TwiceFp4(1),  kZero + TwiceFp4(2),  kZero + TwiceFp4(3),
        kZero + TwiceFp4(4),  kZero + TwiceFp4(5),  kZero + TwiceFp4(6),  kZero + TwiceFp4(7),
        kZero + TwiceFp4(8),  kZero + TwiceFp4(9),  kZero + TwiceFp4(10), kZero + TwiceFp4(11),
        kZero + TwiceFp4(12), kZero + TwiceFp4(13), kZero + TwiceFp4(14), kZero + TwiceFp4(15)};
    const __m512i twice =
        _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kTwice)));
#pragma GCC unroll 2
    for (int p = 0; p < kParts; ++p) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) parts[p][v] = _mm512_shuffle_epi8(twice, parts[p][v]);
    }
  }

  template <int kDigits>
  OUTRIDER_AVX512_INLINE static __m512i Order(__m512i digits) {
    const __m512i reversed =
        _mm512_broadcast_i32x4(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    return _mm512_shuffle_epi8(FirstLowest<kDigits>(digits), reversed);
  }
};

// 8-bit codes in the order of dot product instructions.
struct Codes8 {
  static constexpr WeightType kType = WeightType::kW8A16;
  static constexpr int kParts = 1;
  static constexpr int kZero = 128;

  OUTRIDER_AVX512_INLINE void Load(const char* at) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      parts[0][v] = _mm512_xor_si512(LoadOnce(at + 64 * v), _mm512_set1_epi8(-128));
    }
  }

  template <int kDigits>
  OUTRIDER_AVX512_INLINE static __m512i Order(__m512i digits) {
    const __m512i by_digit = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, -1, -1, -1, -1));
    return _mm512_maskz_compress_epi32(kDigits == 1 ? 0x1111 : 0x7777,
                                       _mm512_shuffle_epi8(digits, by_digit));
  }

  __m512i parts[kParts][kVectors];
};

template <class Codes>
constexpr int kWordInputs = StepsPerWord(Codes::kType);
template <class Codes, int kDigits>
constexpr size_t kFixedWords = FixedWords(kWordInputs<Codes>, kDigits);

// Sums of one row over one group: by digit, for each output of the panel.
template <int kDigits>
using GroupSums = Int32Sums[kDigits][kVectors];

OUTRIDER_AVX512_INLINE __m512 WidenBytes(const int8_t* bytes) {
  const __m128i bytes16 = _mm_load_si128(reinterpret_cast<const __m128i*>(bytes));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes16));
}

// The scales, or the offsets, of 16 outputs of a panel from `lane` on.
template <class Codes>
OUTRIDER_AVX512_INLINE __m512 GroupFactors(const PanelMatrix& w, int panel, int group, int lane,
                                           bool offsets) {
  if constexpr (Codes::kType == WeightType::kMxfp4) {
    const void* const exponents = w.exponents(panel, group) + lane;
    const __m512i biased =
        _mm512_cvtepu8_epi32(_mm_load_si128(static_cast<const __m128i*>(exponents)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }
  if (w.has_short_scales()) {
    const auto* const halves =
        reinterpret_cast<const __m256i*>(w.short_scales(panel, group) + lane);
    const __m512 scales = _mm512_cvtph_ps(_mm256_load_si256(halves));
    if (!offsets) return scales;
    return _mm512_mul_ps(scales, WidenBytes(w.scale_multiples(panel, group) + lane));
  }
  if (!w.has_units()) {
    return _mm512_load_ps((offsets ? w.offsets(panel, group) : w.scales(panel, group)) + lane);
  }
  return _mm512_mul_ps(WidenBytes(w.multiples(panel, group, offsets) + lane),
                       _mm512_load_ps(w.units(panel, group, offsets) + lane));
}

// The sums of rows [row, row + kRows) before the group's first word.
template <class Codes, int kDigits, int kRows>
OUTRIDER_AVX512_INLINE void StartGroup(const Product& product, int row, int group,
                                       GroupSums<kDigits> (&sums)[kRows]) {
  const auto groups = static_cast<size_t>(product.weights->groups());
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int d = 0; d < kDigits; ++d) {
      Int32Sums start = {};
      if constexpr (Codes::kZero != 0) {
        const size_t at = (static_cast<size_t>(row + r) * groups + group) * kDigits + d;
        start = (Int32Sums)_mm512_set1_epi32(product.x_starts[at]);
      }
      sums[r][d][0] = sums[r][d][1] = start;
    }
  }
}

// Adds one group's sums, with its scales and offsets, to the rows' totals.
template <class Codes, int kDigits, int kRows>
OUTRIDER_AVX512_INLINE void AddGroup(const Product& product, int row, int panel, int group,
                                     const GroupSums<kDigits> (&sums)[kRows],
                                     float (&totals)[kRows][kPanelOutputs]) {
  const PanelMatrix& w = *product.weights;
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const int lane = 16 * v;
    const __m512 scales = GroupFactors<Codes>(w, panel, group, lane, /*offsets=*/false);
    __m512 offsets = _mm512_setzero_ps();
    if (w.has_offsets()) offsets = GroupFactors<Codes>(w, panel, group, lane, /*offsets=*/true);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      __m512 steps = _mm512_cvtepi32_ps((__m512i)sums[r][0][v]);
#pragma GCC unroll 3
      for (int d = 1; d < kDigits; ++d) {
        const __m512 unit = _mm512_set1_ps(static_cast<float>(1 << 8 * d));
        steps = _mm512_fmadd_ps(_mm512_cvtepi32_ps((__m512i)sums[r][d][v]), unit, steps);
      }
      const size_t at = static_cast<size_t>(row + r) * w.groups() + group;
      const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(product.x_scales[at]));
      __m512 total = _mm512_fmadd_ps(steps, scale, _mm512_load_ps(totals[r] + lane));
      if (w.has_offsets()) {
        total = _mm512_fmadd_ps(_mm512_set1_ps(product.x_sums[at]), offsets, total);
      }
      _mm512_store_ps(totals[r] + lane, total);
    }
  }
}

template <class Codes>
OUTRIDER_AVX512_INLINE void PrefetchScales(const PanelMatrix& w, int panel, int group) {
  if constexpr (Codes::kType == WeightType::kMxfp4) {
    _mm_prefetch(w.exponents(panel, group) + kScalesAhead, _MM_HINT_T1);
    return;
  }
  if (w.has_units()) {
    _mm_prefetch(w.multiples(panel, group, /*offsets=*/false) + kScalesAhead, _MM_HINT_T1);
    if (!w.has_offsets()) return;
    _mm_prefetch(w.multiples(panel, group, /*offsets=*/true) + kScalesAhead, _MM_HINT_T1);
    return;
  }
  if (w.has_short_scales()) {
    _mm_prefetch(w.short_scales(panel, group) + kScalesAhead, _MM_HINT_T1);
    if (!w.has_offsets()) return;
    _mm_prefetch(w.scale_multiples(panel, group) + kScalesAhead, _MM_HINT_T1);
    return;
  }
  const float* const scales = w.scales(panel, group) + kScalesAhead;
  _mm_prefetch(scales, _MM_HINT_T1);
  _mm_prefetch(scales + 16, _MM_HINT_T1);
  if (!w.has_offsets()) return;
  const float* const offsets = w.offsets(panel, group) + kScalesAhead;
  _mm_prefetch(offsets, _MM_HINT_T1);
  _mm_prefetch(offsets + 16, _MM_HINT_T1);
}

template <class Codes, int kDigits, int kRows>
OUTRIDER_AVX512 void Panel(const Product& product, int row, int panel) {
  constexpr int kParts = Codes::kParts;
  constexpr size_t kWords = kFixedWords<Codes, kDigits>;
  const PanelMatrix& w = *product.weights;
  const size_t stride = RoundedRowStride(w.words() * kWords);
  const int group_words = (w.group_size() + kWordInputs<Codes> - 1) / kWordInputs<Codes>;
  const char* codes = w.panels() + panel * w.panel_bytes();
  const uint32_t* x = product.x_words + row * stride;
  alignas(64) float totals[kRows][kPanelOutputs] = {};
  int left = w.words();
  for (int group = 0; group < w.groups(); ++group) {
    const int words = std::min(group_words, left);
    if constexpr (PrefetchesFixed(kDigits, kRows)) PrefetchScales<Codes>(w, panel, group);
    left -= words;
    GroupSums<kDigits> sums[kRows];
    StartGroup<Codes>(product, row, group, sums);
    for (int i = 0; i < words; ++i) {
      if constexpr (PrefetchesFixed(kDigits, kRows)) {
        _mm_prefetch(codes + kFixedPrefetchBytes, _MM_HINT_T1);
        _mm_prefetch(codes + kFixedPrefetchBytes + 64, _MM_HINT_T1);
      }
      Codes word;
      word.Load(codes);
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        const uint32_t* const of_row = x + r * stride;
#pragma GCC unroll 3
        for (int d = 0; d < kDigits; ++d) {
#pragma GCC unroll 2
          for (int p = 0; p < kParts; ++p) {
            const __m512i digits = _mm512_set1_epi32(static_cast<int>(of_row[d * kParts + p]));
            sums[r][d][0] = AddDot(sums[r][d][0], word.parts[p][0], digits);
            sums[r][d][1] = AddDot(sums[r][d][1], word.parts[p][1], digits);
          }
        }
      }
      codes += 4 * kPanelOutputs;
      x += kWords;
    }
    AddGroup<Codes, kDigits>(product, row, panel, group, sums, totals);
  }
  for (int r = 0; r < kRows; ++r) {
    const int output = panel * kPanelOutputs;
    WriteOutputs(product, row + r, output, _mm512_load_ps(totals[r]));
    WriteOutputs(product, row + r, output + 16, _mm512_load_ps(totals[r] + 16));
  }
}

template <class Codes, int kDigits, int kRows>
void Rows(const Product& product, int row, int rows, int panel) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return Rows<Codes, kDigits, kRows - 1>(product, row, rows, panel);
  }
  Panel<Codes, kDigits, kRows>(product, row, panel);
}

template <class Codes, int kDigits>
void MatMulCodes(const Product& product, int begin, int end) {
  constexpr int kRows = RowsOfTile(kDigits);
  for (int panel = begin; panel < end; ++panel) {
    for (int row = 0; row < product.rows; row += kRows) {
      Rows<Codes, kDigits, kRows>(product, row, product.rows - row, panel);
    }
  }
}

// The size of a step, and how many of them a value is.
struct Steps {
  float size, inverse;
};

// Steps for a group whose largest magnitude has these bits, which are NaN's or infinity's at worst.
template <int kDigits>
Steps StepsFor(uint32_t max) {
  if (max >= 0x7f800000) return {std::numeric_limits<float>::quiet_NaN(), 0};
  if constexpr (kDigits == 1) {
    const float largest = std::bit_cast<float>(max);
    // Of less the inverse would be infinite.
    if (largest < 0x1p-120f) return {0, 0};
    return {largest / 127.f, 127.f / largest};
  } else {
    static_assert(kDigits == 3);
    // The exponent of the largest value once it is rounded up to 127/128 of a power of two. Steps
    // are no smaller than the smallest normal float: values below count as zero.
    const uint32_t exponent = std::max((max + 0x1ffff) >> 23, 23u);
    return {std::bit_cast<float>((exponent - 22) << 23),
            std::bit_cast<float>((276 - exponent) << 23)};
  }
}

// Rounds one group, the first one of `to`.
template <class Codes, int kDigits>
OUTRIDER_AVX512 void FixGroup(const float* x, int count, const FixedRow& to) {
  // Bits of floats without their sign are in the order of their values, NaN last.
  __m512i maxima = _mm512_setzero_si512();
  for (int i = 0; i < count; i += 16) {
    const auto mask = static_cast<__mmask16>((1u << std::min(count - i, 16)) - 1);
    const __m512i bits = _mm512_maskz_loadu_epi32(mask, x + i);
    maxima = _mm512_max_epu32(maxima, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
  }
  constexpr size_t kWords = kFixedWords<Codes, kDigits>;
  const Steps steps = StepsFor<kDigits>(_mm512_reduce_max_epu32(maxima));

  const __m512i half = _mm512_set1_epi32(kDigits == 1 ? 0 : 0x808080);
  __m512 total = _mm512_setzero_ps();
  Int32Sums offsets[kDigits] = {};  // kZero times the sums of the digits
  for (int i = 0; i < count; i += 16) {
    const int now = std::min(count - i, 16);
    const __m512 values = _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << now) - 1), x + i);
    const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(values, _mm512_set1_ps(steps.inverse)));
    total = _mm512_add_ps(total, _mm512_cvtepi32_ps(whole));
    const __m512i digits = _mm512_xor_si512(_mm512_add_epi32(whole, half), half);
#pragma GCC unroll 3
    for (int d = 0; Codes::kZero != 0 && d < kDigits; ++d) {
      offsets[d] = AddDot(offsets[d], _mm512_set1_epi32(Codes::kZero << 8 * d), digits);
    }
    constexpr int kInputs = kWordInputs<Codes>;
    const size_t stored = (now + kInputs - 1) / kInputs * kWords;
    _mm512_mask_storeu_epi32(to.words + i / kInputs * kWords,
                             static_cast<__mmask16>((1u << stored) - 1),
                             Codes::template Order<kDigits>(digits));
  }
  *to.steps = steps.size;
  *to.sums = _mm512_reduce_add_ps(total) * steps.size;
  for (int d = 0; Codes::kZero != 0 && d < kDigits; ++d) {
    to.starts[d] = -_mm512_reduce_add_epi32((__m512i)offsets[d]);
  }
}

template <class Codes, int kDigits>
void FixRow(const float* x, int in, int group_size, const FixedRow& to) {
  FixedRow group = to;
  for (int begin = 0; begin < in; begin += group_size) {
    const int count = std::min(group_size, in - begin);
    FixGroup<Codes, kDigits>(x + begin, count, group);
    const size_t words = (count + kWordInputs<Codes> - 1) / kWordInputs<Codes>;
    group.words += words * kFixedWords<Codes, kDigits>;
    group.starts += kDigits;
    ++group.steps;
    ++group.sums;
  }
}

}  // namespace

void ChooseFixedMatMul(CpuKernels& kernels) {
  if (!HasAvx512() || !__builtin_cpu_supports("avx512vnni")) return;
  kernels.w8_fixed = {&MatMulCodes<Codes8, 3>, &FixRow<Codes8, 3>, 3};
  kernels.w4_fixed = {&MatMulCodes<Codes4, 3>, &FixRow<Codes4, 3>, 3};
  kernels.mxfp4_fixed = {&MatMulCodes<CodesFp4, 3>, &FixRow<CodesFp4, 3>, 3};
  kernels.w8_int8 = {&MatMulCodes<Codes8, 1>, &FixRow<Codes8, 1>, 1};
  kernels.w4_int8 = {&MatMulCodes<Codes4, 1>, &FixRow<Codes4, 1>, 1};
  kernels.mxfp4_int8 = {&MatMulCodes<CodesFp4, 1>, &FixRow<CodesFp4, 1>, 1};
}

}  // namespace outrider

#else

#include "common/backend/cpu/kernels.h"

namespace outrider {

void ChooseFixedMatMul(CpuKernels&) {}

}  // namespace outrider

#endif
