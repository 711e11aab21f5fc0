// Rounds activations to int8, row by row, and multiplies int8 weights with them on any instruction
// set (dot_matmul.cc has the fast version). All sums are integers, so their order does not matter.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/backend/cpu/int8_matmul.cc"
// Compiles this file once per target; must come before the other Highway headers.
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/backend/cpu/kernels.h"
#include "common/backend/cpu/rounded_rows.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using VI = hn::Vec<DI>;

// Writes one row of one panel from the sums of (steps + 128) * weight steps.
HWY_INLINE void Finish(const Product& product, int row, int panel, const int32_t* sums) {
  const PanelMatrix& w = *product.weights;
  const int first = panel * kPanelOutputs;
  const int count = std::min(kPanelOutputs, w.out_features() - first);
  float* y = product.y + static_cast<size_t>(row) * w.out_features() + first;
  for (int i = 0; i < count; ++i) {
    const auto steps = static_cast<float>(sums[i] - 128 * w.sums(panel)[i]);
    float value = steps * (w.scales(panel, 0)[i] * product.x_scales[row]);
    if (product.bias != nullptr) value += product.bias[first + i];
    y[i] = product.accumulate ? y[i] + value : value;
  }
}

#if HWY_TARGET == HWY_SCALAR

template <int kRows>
void Rows(const Product& product, int row, int panel) {
  const int words = product.weights->words();
  const auto* w = reinterpret_cast<const int8_t*>(product.weights->panels() +
                                                  panel * product.weights->panel_bytes());
  for (int r = row; r < row + kRows; ++r) {
    const uint32_t* x = product.x_words + static_cast<size_t>(r) * RoundedRowStride(words);
    int32_t sums[kPanelOutputs] = {};
    for (int i = 0; i < words; ++i) {
      for (int output = 0; output < kPanelOutputs; ++output) {
        const int8_t* const quad = w + (static_cast<size_t>(i) * kPanelOutputs + output) * 4;
        for (int k = 0; k < 4; ++k) {
          sums[output] += quad[k] * static_cast<int32_t>(x[i] >> 8 * k & 0xff);
        }
      }
    }
    Finish(product, r, panel, sums);
  }
}

#else

// kRows rows of one panel. Bytes are split into even and odd 16-bit pairs, which one instruction
// multiplies and adds into the 32 bits of their output.
template <int kRows>
void Rows(const Product& product, int row, int panel) {
  const DI di;
  const hn::Repartition<int16_t, DI> d16;
  using V16 = hn::Vec<decltype(d16)>;
  constexpr int kVectors = 2;  // outputs at a time: as many sums as AVX2 has registers for
  const int lanes = static_cast<int>(hn::Lanes(di));
  const int words = product.weights->words();
  const auto* quads = reinterpret_cast<const int32_t*>(product.weights->panels() +
                                                       panel * product.weights->panel_bytes());
  const size_t stride = RoundedRowStride(words);
  const uint32_t* x = product.x_words + static_cast<size_t>(row) * stride;
  const V16 low_byte = hn::Set(d16, 0xff);
  HWY_ALIGN int32_t sums[kRows][kPanelOutputs];
  for (int first = 0; first < kPanelOutputs; first += kVectors * lanes) {
    VI sum[kRows][kVectors], rest[kRows][kVectors];
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) sum[r][v] = rest[r][v] = hn::Zero(di);
    }
    for (int i = 0; i < words; ++i) {
      V16 even[kVectors], odd[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        const int32_t* at = quads + static_cast<size_t>(i) * kPanelOutputs + first + v * lanes;
        const V16 w = hn::BitCast(d16, hn::Load(di, at));
        even[v] = hn::ShiftRight<8>(hn::ShiftLeft<8>(w));
        odd[v] = hn::ShiftRight<8>(w);
      }
      for (int r = 0; r < kRows; ++r) {
        const auto word = static_cast<int32_t>(x[static_cast<size_t>(r) * stride + i]);
        const V16 steps = hn::BitCast(d16, hn::Set(di, word));
        const V16 even_x = hn::And(steps, low_byte);
        const V16 odd_x = hn::And(hn::ShiftRight<8>(steps), low_byte);
        for (int v = 0; v < kVectors; ++v) {
          sum[r][v] = hn::ReorderWidenMulAccumulate(di, even[v], even_x, sum[r][v], rest[r][v]);
          sum[r][v] = hn::ReorderWidenMulAccumulate(di, odd[v], odd_x, sum[r][v], rest[r][v]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        const VI pairs = hn::RearrangeToOddPlusEven(sum[r][v], rest[r][v]);
        hn::Store(pairs, di, sums[r] + first + v * lanes);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) Finish(product, row + r, panel, sums[r]);
}

#endif

void MatMulW8A8(const Product& product, int begin, int end) {
  constexpr int kMax = 3;
  for (int panel = begin; panel < end; ++panel) {
    int row = 0;
    for (; row + kMax <= product.rows; row += kMax) Rows<kMax>(product, row, panel);
    if (product.rows - row == 2) Rows<2>(product, row, panel);
    if (product.rows - row == 1) Rows<1>(product, row, panel);
  }
}

float QuantizeRow(const float* x, int in, uint8_t* steps) {
  const DF df;
  const DI di;
  const hn::Rebind<uint8_t, DF> d8;
  const int lanes = static_cast<int>(hn::Lanes(df));
  // Bits of floats without their sign are in the order of their values, NaN last.
  auto maxima = hn::Zero(di);
  int i = 0;
  for (; i + lanes <= in; i += lanes) {
    maxima = hn::Max(maxima, hn::BitCast(di, hn::Abs(hn::LoadU(df, x + i))));
  }
  int32_t most = hn::GetLane(hn::MaxOfLanes(di, maxima));
  for (; i < in; ++i) most = std::max(most, std::bit_cast<int32_t>(std::fabs(x[i])));
  const auto max = std::bit_cast<float>(most);
  if (!std::isfinite(max)) {  // every output is NaN
    std::fill(steps, steps + (in + 3) / 4 * 4, uint8_t{128});
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = max > 0.f ? 127.f / max : 0.f;

  const auto offset = hn::Set(di, 128);
  const auto scale = hn::Set(df, inverse);
  i = 0;
  for (; i + lanes <= in; i += lanes) {
    const VI rounded = hn::NearestInt(hn::Mul(hn::LoadU(df, x + i), scale));
    hn::StoreU(hn::DemoteTo(d8, hn::Add(rounded, offset)), d8, steps + i);
  }
  for (; i < in; ++i) {
    steps[i] = static_cast<uint8_t>(static_cast<int>(std::nearbyint(x[i] * inverse)) + 128);
  }
  // Any value would do, since the weights there are zero.
  for (; i % 4 != 0; ++i) steps[i] = 0;
  return max / 127.f;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {
namespace {

HWY_EXPORT(MatMulW8A8);
HWY_EXPORT(QuantizeRow);

}  // namespace

void ChooseInt8MatMul(CpuKernels& kernels) {
  kernels.matmul_w8a8 = &HWY_DYNAMIC_DISPATCH(MatMulW8A8);
  kernels.quantize_row = &HWY_DYNAMIC_DISPATCH(QuantizeRow);
}

}  // namespace outrider
#endif  // HWY_ONCE
