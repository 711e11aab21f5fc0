// The product of int8 weights with activations rounded to int8 steps, row by row. All sums are
// integers, so their order does not matter; this is the version for any instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/backend/cpu/int8_matmul.cc"
// Compiles this file once per target; must come before the other Highway headers.
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/backend/cpu/int8_finish.h"
#include "common/backend/cpu/kernels.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DI = hn::CappedTag<int32_t, 16>;
using VI = hn::Vec<DI>;

// Byte `i` of each 32-bit lane, sign-extended.
template <int i>
HWY_INLINE VI SignedByte(VI quad) {
  return hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * i>(quad));
}

void MatMulInt8(const Product& product, int begin, int end) {
  const DI di;
  const int lanes = static_cast<int>(hn::Lanes(di));
  const int words = product.weights->words();
  for (int panel = begin; panel < end; ++panel) {
    const auto* quads = reinterpret_cast<const int32_t*>(product.weights->panels() +
                                                         panel * product.weights->panel_bytes());
    for (int row = 0; row < product.rows; ++row) {
      const uint8_t* x = product.x_steps + static_cast<size_t>(row) * words * 4;
      HWY_ALIGN int32_t sums[kPanelOutputs];
      for (int lane = 0; lane < kPanelOutputs; lane += lanes) {
        VI sum = hn::Zero(di);
        for (int w = 0; w < words; ++w) {
          const VI quad = hn::Load(di, quads + static_cast<size_t>(w) * kPanelOutputs + lane);
          const auto product_of = [&](VI byte, int i)
                                      HWY_ATTR { return hn::Mul(byte, hn::Set(di, x[4 * w + i])); };
          const VI even =
              hn::Add(product_of(SignedByte<0>(quad), 0), product_of(SignedByte<2>(quad), 2));
          const VI odd =
              hn::Add(product_of(SignedByte<1>(quad), 1), product_of(SignedByte<3>(quad), 3));
          sum = hn::Add(sum, hn::Add(even, odd));
        }
        hn::Store(sum, di, sums + lane);
      }
      FinishInt8(product, row, panel, sums);
    }
  }
}

float QuantizeRow(const float* x, int in, uint8_t* steps) {
  float max = 0.f;
  for (int i = 0; i < in; ++i) max = std::max(max, std::fabs(x[i]));
  const float inverse = max > 0.f ? 127.f / max : 0.f;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  constexpr float kRound = 12582912.f;
  for (int i = 0; i < in; ++i) {
    steps[i] = static_cast<uint8_t>(static_cast<int>(x[i] * inverse + kRound - kRound) + 128);
  }
  // Zero: the weights there are zero too.
  std::fill(steps + in, steps + (in + 3) / 4 * 4, uint8_t{128});
  return max / 127.f;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {
namespace {

HWY_EXPORT(MatMulInt8);
HWY_EXPORT(QuantizeRow);

}  // namespace

void ChooseInt8MatMul(CpuKernels& kernels) {
  kernels.matmul_int8 = &HWY_DYNAMIC_DISPATCH(MatMulInt8);
  kernels.quantize_row = &HWY_DYNAMIC_DISPATCH(QuantizeRow);
}

}  // namespace outrider
#endif  // HWY_ONCE
