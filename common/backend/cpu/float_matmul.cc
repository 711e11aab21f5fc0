// The product of f32 activations with panels of f32, bf16 and codes. Each (row, output) is one
// chain of multiply-adds over k in ascending order (for codes with scales: over each group's
// inputs, then over the groups), whatever the number of rows in the call and the panels processed
// with it. That is what makes rows bit-identical in any batch.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/backend/cpu/float_matmul.cc"
// Compiles this file once per target; must come before the other Highway headers.
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>
#include <cstring>

#include "common/backend/cpu/kernels.h"
#include "common/backend/cpu/widen_fp4-inl.h"
#include "common/backend/cpu/widen_fp8-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));

// A group is two vectors of neighbouring outputs: the unit of register blocking.
constexpr int kGroupOutputs = 2 * kLanes;
constexpr int kGroupsPerPanel = kPanelOutputs / kGroupOutputs;
// AVX-512 has 32 registers, the others 16. They must hold rows x groups x 2 accumulators, the
// weights of one step and one x.
constexpr int kMaxRows = kLanes == 16 ? 8 : 4;
constexpr bool Is4Bits(WeightType type) {
  return type == WeightType::kW4A16 || type == WeightType::kMxfp4;
}
constexpr int GroupsFor(WeightType type, int rows) {
  // The words of 4-bit codes stay in registers for eight steps.
  if (Is4Bits(type)) return rows == 1 ? 2 : 1;
  return kLanes == 16 ? (rows <= 2 ? 4 : rows <= 4 ? 2 : 1) : (rows == 1 ? 4 : rows == 2 ? 2 : 1);
}

constexpr bool HasScales(WeightType type) {
  return type == WeightType::kW8A16 || type == WeightType::kFp8 || Is4Bits(type);
}

// From this many rows on arithmetic is the bound: the product advances too slowly for the hardware
// prefetcher to look far enough ahead. With fewer rows a prefetch costs more than it saves. It goes
// to the second-level cache, where it ties up no buffers of the first: 25 GB/s of cold f32 weights
// at 8 rows, against 21 when prefetched to the first level and 17 without (Zen 4, 33 GB/s
// streaming).
constexpr int kPrefetchRows = 5;
constexpr size_t kPrefetchBytes = 8192;
constexpr int kSecondLevel = 2;  // locality argument of __builtin_prefetch

template <int kRows, int kGroups>
struct Block {
  VF sum[kRows][kGroups][2];
  const char* stream[kGroups];
  const float* x;
  size_t in;

  HWY_INLINE void Clear() {
    const DF df;
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(4)
      for (int g = 0; g < kGroups; ++g) sum[r][g][0] = sum[r][g][1] = hn::Zero(df);
    }
  }

  HWY_INLINE void Add(int r, int g, VF x_k, VF w0, VF w1) {
    sum[r][g][0] = hn::MulAdd(x_k, w0, sum[r][g][0]);
    sum[r][g][1] = hn::MulAdd(x_k, w1, sum[r][g][1]);
  }

  // Adds the products of input k with its weights.
  HWY_INLINE void AddInput(size_t k, const VF (&w)[kGroups][2]) {
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const VF x_k = hn::Set(DF(), x[r * in + k]);
      HWY_UNROLL(4)
      for (int g = 0; g < kGroups; ++g) Add(r, g, x_k, w[g][0], w[g][1]);
    }
  }

  HWY_INLINE void StepF32(size_t k) {
    const DF df;
    VF w[kGroups][2];
    HWY_UNROLL(4)
    for (int g = 0; g < kGroups; ++g) {
      const float* p = reinterpret_cast<const float*>(stream[g]) + k * kPanelOutputs;
      Prefetch(p);
      w[g][0] = hn::Load(df, p);
      w[g][1] = hn::Load(df, p + kLanes);
    }
    AddInput(k, w);
  }

  // 8-bit codes; FP8 in units of kFp8Unit.
  template <WeightType kType>
  HWY_INLINE static VF WidenBytes(const char* p) {
    const DF df;
    if constexpr (kType == WeightType::kW8A16) {
      const hn::Rebind<int8_t, DF> d8;
      const auto bytes = hn::LoadU(d8, reinterpret_cast<const int8_t*>(p));
      return hn::ConvertTo(df, hn::PromoteTo(hn::RebindToSigned<DF>(), bytes));
    } else {
      return WidenFiniteFp8(df, reinterpret_cast<const uint8_t*>(p));
    }
  }

  template <WeightType kType>
  HWY_INLINE void StepBytes(size_t k) {
    VF w[kGroups][2];
    HWY_UNROLL(4)
    for (int g = 0; g < kGroups; ++g) {
      const char* p = stream[g] + k * kPanelOutputs;
      if (k % 2 == 0) Prefetch(p);  // two steps share a cache line
      w[g][0] = WidenBytes<kType>(p);
      w[g][1] = WidenBytes<kType>(p + kLanes);
    }
    AddInput(k, w);
  }

  template <WeightType kType>
  HWY_INLINE void Step4Bits(size_t word, int steps) {
    if constexpr (kType == WeightType::kMxfp4) {
      StepFp4(word, steps);
    } else {
      StepInt4(word, steps);
    }
  }

  // The first `steps` inputs of word `word`, which starts at input 8 * word.
  HWY_INLINE void StepInt4(size_t word, int steps) {
    const DF df;
    const DU du;
    const hn::RebindToSigned<DF> di;
    hn::Vec<DU> codes[kGroups][2];
    HWY_UNROLL(4)
    for (int g = 0; g < kGroups; ++g) {
      const auto* p = reinterpret_cast<const uint32_t*>(stream[g]) + word * kPanelOutputs;
      Prefetch(p);
      codes[g][0] = hn::Load(du, p);
      codes[g][1] = hn::Load(du, p + kLanes);
    }
    const auto low = hn::Set(du, 15);
    HWY_UNROLL(8)
    for (int i = 0; i < steps; ++i) {
      VF w[kGroups][2];
      HWY_UNROLL(4)
      for (int g = 0; g < kGroups; ++g) {
        HWY_UNROLL(2)
        for (int v = 0; v < 2; ++v) {
          w[g][v] = hn::ConvertTo(df, hn::BitCast(di, hn::And(codes[g][v], low)));
          codes[g][v] = hn::ShiftRight<4>(codes[g][v]);
        }
      }
      AddInput(8 * word + i, w);
    }
  }

  // The same for 4-bit floats. Their doubled values are bytes: the first ones of a word's pairs in
  // one vector and the second ones in another, the first pair in front.
  HWY_INLINE void StepFp4(size_t word, int steps) {
    const DF df;
    const DU du;
    const hn::RebindToSigned<DF> di;
    hn::Vec<DU> pair_bytes[kGroups][2][2];
    HWY_UNROLL(4)
    for (int g = 0; g < kGroups; ++g) {
      const auto* p = reinterpret_cast<const uint32_t*>(stream[g]) + word * kPanelOutputs;
      Prefetch(p);
      HWY_UNROLL(2)
      for (int v = 0; v < 2; ++v) {
        const auto codes = hn::Load(du, p + v * kLanes);
        pair_bytes[g][v][0] = TwiceLowFp4(du, codes);
        pair_bytes[g][v][1] = TwiceLowFp4(du, hn::ShiftRight<4>(codes));
      }
    }
    HWY_UNROLL(8)
    for (int i = 0; i < steps; ++i) {
      VF w[kGroups][2];
      HWY_UNROLL(4)
      for (int g = 0; g < kGroups; ++g) {
        HWY_UNROLL(2)
        for (int v = 0; v < 2; ++v) {
          auto& bytes = pair_bytes[g][v][i % 2];
          w[g][v] = hn::ConvertTo(df, hn::ShiftRight<24>(hn::BitCast(di, bytes)));
          bytes = hn::ShiftLeft<8>(bytes);
        }
      }
      AddInput(8 * word + i, w);
    }
  }

  // k = 2 * pair and the next one; `odd` is false for the last k of an odd number.
  template <bool odd>
  HWY_INLINE void StepBf16(size_t pair) {
    const DF df;
    const DU du;
    VF even_w[kGroups][2], odd_w[kGroups][2];
    const auto high = hn::Set(du, 0xffff0000u);
    HWY_UNROLL(4)
    for (int g = 0; g < kGroups; ++g) {
      const uint32_t* p = reinterpret_cast<const uint32_t*>(stream[g]) + pair * kPanelOutputs;
      Prefetch(p);
      HWY_UNROLL(2)
      for (int v = 0; v < 2; ++v) {
        const auto both = hn::Load(du, p + v * kLanes);
        even_w[g][v] = hn::BitCast(df, hn::ShiftLeft<16>(both));
        odd_w[g][v] = hn::BitCast(df, hn::And(both, high));
      }
    }
    AddInput(2 * pair, even_w);
    if constexpr (odd) AddInput(2 * pair + 1, odd_w);
  }

  template <class T>
  HWY_INLINE void Prefetch(const T* p) const {
    if constexpr (kRows >= kPrefetchRows) {
      const char* ahead = reinterpret_cast<const char*>(p) + kPrefetchBytes;
      __builtin_prefetch(ahead, 0, kSecondLevel);
      if constexpr (kGroupOutputs * sizeof(T) > 64) {
        __builtin_prefetch(ahead + 64, 0, kSecondLevel);
      }
    }
  }
};

// Writes one row's sums for the group of outputs that starts at `output`.
HWY_INLINE void Finish(const Product& product, int row, int output, VF sum0, VF sum1) {
  const DF df;
  const int out = product.weights->out_features();
  float* y = product.y + static_cast<size_t>(row) * out + output;
  const int count = out - output;
  if (HWY_LIKELY(count >= kGroupOutputs)) {
    if (product.bias != nullptr) {
      sum0 = hn::Add(sum0, hn::LoadU(df, product.bias + output));
      sum1 = hn::Add(sum1, hn::LoadU(df, product.bias + output + kLanes));
    }
    if (product.accumulate) {
      sum0 = hn::Add(hn::LoadU(df, y), sum0);
      sum1 = hn::Add(hn::LoadU(df, y + kLanes), sum1);
    }
    hn::StoreU(sum0, df, y);
    hn::StoreU(sum1, df, y + kLanes);
    return;
  }
  HWY_ALIGN float sums[kGroupOutputs];
  hn::Store(sum0, df, sums);
  hn::Store(sum1, df, sums + kLanes);
  for (int i = 0; i < count; ++i) {
    if (product.bias != nullptr) sums[i] += product.bias[output + i];
    y[i] = product.accumulate ? y[i] + sums[i] : sums[i];
  }
}

template <WeightType kType>
HWY_INLINE const char* GroupStream(const PanelMatrix& w, int group) {
  constexpr int kBytes = kType == WeightType::kW8A16 || kType == WeightType::kFp8 ? 1 : 4;
  return w.panels() + group / kGroupsPerPanel * w.panel_bytes() +
         group % kGroupsPerPanel * kGroupOutputs * kBytes;
}

// Adds the products of inputs [begin, end); `begin` is at the start of a word.
template <WeightType kType, int kRows, int kGroups>
HWY_INLINE void Inputs(Block<kRows, kGroups>& block, size_t begin, size_t end) {
  if constexpr (Is4Bits(kType)) {
    size_t word = begin / 8;
    for (; 8 * (word + 1) <= end; ++word) block.template Step4Bits<kType>(word, 8);
    if (8 * word < end) block.template Step4Bits<kType>(word, static_cast<int>(end - 8 * word));
  } else if constexpr (kType == WeightType::kBf16) {
    size_t pair = begin / 2;
    for (; 2 * (pair + 1) <= end; ++pair) block.template StepBf16<true>(pair);
    if (2 * pair < end) block.template StepBf16<false>(pair);
  } else if constexpr (kType == WeightType::kF32) {
    for (size_t k = begin; k < end; ++k) block.StepF32(k);
  } else {
    for (size_t k = begin; k < end; ++k) block.template StepBytes<kType>(k);
  }
}

HWY_INLINE VF WidenMultiples(const int8_t* multiples) {
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<int8_t, DF> d8;
  return hn::ConvertTo(DF(), hn::PromoteTo(di, hn::Load(d8, multiples)));
}

// Scales or offsets with units.
HWY_INLINE VF Multiples(const PanelMatrix& w, int panel, int group, int lane, bool offsets) {
  return hn::Mul(WidenMultiples(w.multiples(panel, group, offsets) + lane),
                 hn::Load(DF(), w.units(panel, group, offsets) + lane));
}

HWY_INLINE VF ShortScales(const PanelMatrix& w, int panel, int group, int lane) {
  const hn::Rebind<hwy::float16_t, DF> half;
  const uint16_t* const bits = w.short_scales(panel, group) + lane;
  return hn::PromoteTo(DF(), hn::Load(half, reinterpret_cast<const hwy::float16_t*>(bits)));
}

// The scales of one vector of outputs, from `lane` on, in one group of inputs.
template <WeightType kType>
HWY_INLINE VF ScalesOf(const PanelMatrix& w, int panel, int group, int lane) {
  const DF df;
  if constexpr (kType == WeightType::kMxfp4) {
    const hn::Rebind<uint8_t, DF> d8;
    const auto exponents = hn::Load(d8, w.exponents(panel, group) + lane);
    return hn::BitCast(df, hn::ShiftLeft<23>(hn::PromoteTo(DU(), exponents)));
  } else {
    if (w.has_short_scales()) return ShortScales(w, panel, group, lane);
    if (w.has_units()) return Multiples(w, panel, group, lane, /*offsets=*/false);
    return hn::Load(df, w.scales(panel, group) + lane);
  }
}

HWY_INLINE VF OffsetsOf(const PanelMatrix& w, int panel, int group, int lane) {
  if (w.has_short_scales()) {
    return hn::Mul(WidenMultiples(w.scale_multiples(panel, group) + lane),
                   ShortScales(w, panel, group, lane));
  }
  if (w.has_units()) return Multiples(w, panel, group, lane, /*offsets=*/true);
  return hn::Load(DF(), w.offsets(panel, group) + lane);
}

// Accumulates the block over all inputs, with the scale and the offset that the codes of each group
// of inputs share. `first` is the block's first group of outputs.
template <WeightType kType, int kRows, int kGroups>
HWY_INLINE void ScaledInputs(const Product& product, int row, int first,
                             Block<kRows, kGroups>& block) {
  const DF df;
  const PanelMatrix& w = *product.weights;
  HWY_ALIGN float totals[kRows][kGroups][kGroupOutputs] = {};  // not in registers: rarely accessed
  for (int part = 0; part < w.groups(); ++part) {
    const size_t begin = static_cast<size_t>(part) * w.group_size();
    block.Clear();
    Inputs<kType>(block, begin, std::min(begin + w.group_size(), block.in));
    for (int g = 0; g < kGroups; ++g) {
      const int panel = (first + g) / kGroupsPerPanel;
      const int lane = (first + g) % kGroupsPerPanel * kGroupOutputs;
      for (int v = 0; v < 2; ++v) {
        const VF scale = ScalesOf<kType>(w, panel, part, lane + v * kLanes);
        for (int r = 0; r < kRows; ++r) {
          float* const total = totals[r][g] + v * kLanes;
          hn::Store(hn::MulAdd(block.sum[r][g][v], scale, hn::Load(df, total)), df, total);
        }
        if (!w.has_offsets()) continue;
        const VF offset = OffsetsOf(w, panel, part, lane + v * kLanes);
        for (int r = 0; r < kRows; ++r) {
          float* const total = totals[r][g] + v * kLanes;
          const VF x_sum = hn::Set(df, product.x_sums[(row + r) * w.groups() + part]);
          hn::Store(hn::MulAdd(x_sum, offset, hn::Load(df, total)), df, total);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int g = 0; g < kGroups; ++g) {
      for (int v = 0; v < 2; ++v) block.sum[r][g][v] = hn::Load(df, totals[r][g] + v * kLanes);
    }
  }
}

template <WeightType kType, int kRows, int kGroups>
void Groups(const Product& product, int row, int group) {
  const PanelMatrix& w = *product.weights;
  Block<kRows, kGroups> block;
  block.in = w.in_features();
  block.x = product.x + row * block.in;
  for (int g = 0; g < kGroups; ++g) block.stream[g] = GroupStream<kType>(w, group + g);
  if constexpr (HasScales(kType)) {
    ScaledInputs<kType>(product, row, group, block);
  } else {
    block.Clear();
    Inputs<kType>(block, 0, block.in);
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int g = 0; g < kGroups; ++g) {
      Finish(product, row + r, (group + g) * kGroupOutputs, block.sum[r][g][0], block.sum[r][g][1]);
    }
  }
}

// kRows rows over groups [begin, end). Few rows process several groups at once: one group's two
// chains of multiply-adds would wait for their own latency.
template <WeightType kType, int kRows>
void Rows(const Product& product, int row, int begin, int end) {
  constexpr int kGroups = GroupsFor(kType, kRows);
  int group = begin;
  for (; group + kGroups <= end; group += kGroups)
    Groups<kType, kRows, kGroups>(product, row, group);
  for (; group < end; ++group) Groups<kType, kRows, 1>(product, row, group);
}

template <WeightType kType>
void SomeRows(const Product& product, int row, int count, int begin, int end) {
  switch (count) {
    case 1: return Rows<kType, 1>(product, row, begin, end);
    case 2: return Rows<kType, 2>(product, row, begin, end);
    case 3: return Rows<kType, 3>(product, row, begin, end);
    case 4: return Rows<kType, 4>(product, row, begin, end);
    default: break;
  }
  if constexpr (kMaxRows == 8) {
    switch (count) {
      case 5: return Rows<kType, 5>(product, row, begin, end);
      case 6: return Rows<kType, 6>(product, row, begin, end);
      case 7: return Rows<kType, 7>(product, row, begin, end);
      default: return Rows<kType, 8>(product, row, begin, end);
    }
  }
}

template <WeightType kType>
void Panels(const Product& product, int begin, int end) {
  if (product.rows <= kMaxRows) {
    SomeRows<kType>(product, 0, product.rows, begin * kGroupsPerPanel, end * kGroupsPerPanel);
    return;
  }
  // All rows use one panel while it is in the cache.
  for (int panel = begin; panel < end; ++panel) {
    for (int row = 0; row < product.rows; row += kMaxRows) {
      SomeRows<kType>(product, row, std::min(kMaxRows, product.rows - row), panel * kGroupsPerPanel,
                      (panel + 1) * kGroupsPerPanel);
    }
  }
}

void MatMulF32(const Product& product, int begin, int end) {
  Panels<WeightType::kF32>(product, begin, end);
}

void MatMulBf16(const Product& product, int begin, int end) {
  Panels<WeightType::kBf16>(product, begin, end);
}

void MatMulW8A16(const Product& product, int begin, int end) {
  Panels<WeightType::kW8A16>(product, begin, end);
}

void MatMulW4A16(const Product& product, int begin, int end) {
  Panels<WeightType::kW4A16>(product, begin, end);
}

void MatMulFp8(const Product& product, int begin, int end) {
  Panels<WeightType::kFp8>(product, begin, end);
}

void MatMulMxfp4(const Product& product, int begin, int end) {
  Panels<WeightType::kMxfp4>(product, begin, end);
}

// Sums within each lane, then over the lanes.
void SumGroups(const float* x, int in, int group_size, float* sums) {
  const DF df;
  const int lanes = static_cast<int>(hn::Lanes(df));
  for (int begin = 0; begin < in; begin += group_size) {
    const int end = std::min(begin + group_size, in);
    VF lane_sums = hn::Zero(df);
    int k = begin;
    for (; k + lanes <= end; k += lanes) lane_sums = hn::Add(lane_sums, hn::LoadU(df, x + k));
    float sum = hn::GetLane(hn::SumOfLanes(df, lane_sums));
    for (; k < end; ++k) sum += x[k];
    *sums++ = sum;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {
namespace {

HWY_EXPORT(MatMulF32);
HWY_EXPORT(MatMulBf16);
HWY_EXPORT(MatMulW8A16);
HWY_EXPORT(MatMulW4A16);
HWY_EXPORT(MatMulFp8);
HWY_EXPORT(MatMulMxfp4);
HWY_EXPORT(SumGroups);

}  // namespace

void ChooseFloatMatMul(CpuKernels& kernels) {
  kernels.matmul_f32 = &HWY_DYNAMIC_DISPATCH(MatMulF32);
  kernels.matmul_bf16 = &HWY_DYNAMIC_DISPATCH(MatMulBf16);
  kernels.matmul_w8a16 = &HWY_DYNAMIC_DISPATCH(MatMulW8A16);
  kernels.matmul_w4a16 = &HWY_DYNAMIC_DISPATCH(MatMulW4A16);
  kernels.matmul_fp8 = &HWY_DYNAMIC_DISPATCH(MatMulFp8);
  kernels.matmul_mxfp4 = &HWY_DYNAMIC_DISPATCH(MatMulMxfp4);
  kernels.sum_groups = &HWY_DYNAMIC_DISPATCH(SumGroups);
}

}  // namespace outrider
#endif  // HWY_ONCE
