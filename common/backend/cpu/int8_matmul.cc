// Rounding of activations to int8, row by row, and the product of int8 weights with them for any
// instruction set (dot_matmul.cc has the fast one). All sums are integers: their order does not
// matter.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/backend/cpu/int8_matmul.cc"
// Compiles this file once per target; must come before the other Highway headers.
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>

#include "common/backend/cpu/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using VI = hn::Vec<DI>;

// Byte `i` of each 32-bit lane, sign-extended.
template <int i>
HWY_INLINE VI SignedByte(VI quad) {
  return hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * i>(quad));
}

// Writes one row of one panel from the sums of (steps + 128) * weight steps.
HWY_INLINE void Finish(const Product& product, int row, int panel, const int32_t* sums) {
  const PanelMatrix& w = *product.weights;
  const int first = panel * kPanelOutputs;
  const int count = std::min(kPanelOutputs, w.out_features() - first);
  float* y = product.y + static_cast<size_t>(row) * w.out_features() + first;
  for (int i = 0; i < count; ++i) {
    const auto steps = static_cast<float>(sums[i] - 128 * w.sums()[first + i]);
    float value = steps * (w.scales()[first + i] * product.x_scales[row]);
    if (product.bias != nullptr) value += product.bias[first + i];
    y[i] = product.accumulate ? y[i] + value : value;
  }
}

void MatMulW8A8(const Product& product, int begin, int end) {
  const DI di;
  const int lanes = static_cast<int>(hn::Lanes(di));
  const int words = product.weights->words();
  const VI low_byte = hn::Set(di, 0xff);
  for (int panel = begin; panel < end; ++panel) {
    const auto* quads = reinterpret_cast<const int32_t*>(product.weights->panels() +
                                                         panel * product.weights->panel_bytes());
    for (int row = 0; row < product.rows; ++row) {
      const uint32_t* x = product.x_words + static_cast<size_t>(row) * words;
      HWY_ALIGN int32_t sums[kPanelOutputs];
      for (int lane = 0; lane < kPanelOutputs; lane += lanes) {
        VI sum = hn::Zero(di);
        for (int i = 0; i < words; ++i) {
          const VI w = hn::Load(di, quads + static_cast<size_t>(i) * kPanelOutputs + lane);
          const VI x_i = hn::Set(di, static_cast<int32_t>(x[i]));
          const VI p0 = hn::Mul(SignedByte<0>(w), hn::And(x_i, low_byte));
          const VI p1 = hn::Mul(SignedByte<1>(w), hn::And(hn::ShiftRight<8>(x_i), low_byte));
          const VI p2 = hn::Mul(SignedByte<2>(w), hn::And(hn::ShiftRight<16>(x_i), low_byte));
          const VI p3 = hn::Mul(SignedByte<3>(w), hn::And(hn::ShiftRight<24>(x_i), low_byte));
          sum = hn::Add(sum, hn::Add(hn::Add(p0, p1), hn::Add(p2, p3)));
        }
        hn::Store(sum, di, sums + lane);
      }
      Finish(product, row, panel, sums);
    }
  }
}

float QuantizeRow(const float* x, int in, uint8_t* steps) {
  const DF df;
  const DI di;
  const hn::Rebind<uint8_t, DF> d8;
  const int lanes = static_cast<int>(hn::Lanes(df));
  auto maxima = hn::Zero(df);
  int i = 0;
  for (; i + lanes <= in; i += lanes) maxima = hn::Max(maxima, hn::Abs(hn::LoadU(df, x + i)));
  float max = hn::GetLane(hn::MaxOfLanes(df, maxima));
  for (; i < in; ++i) max = std::max(max, std::fabs(x[i]));
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
  // Any value would do: the weights there are zero.
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
