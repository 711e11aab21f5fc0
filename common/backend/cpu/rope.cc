// RopeAndWriteKv: rotates queries and keys, and writes keys and values to the cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/backend/cpu/rope.cc"
// Compiles this file once per target; must come before the other Highway headers.
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on

#include <cstdint>
#include <type_traits>

#include "common/backend/cpu/bf16.h"
#include "common/backend/cpu/kernels.h"
#include "common/base/check.h"
#include "common/math/fp8.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void RotateVector(D d, const float* cos, const float* sin, float* low, float* high) {
  const auto c = hn::LoadU(d, cos);
  const auto s = hn::LoadU(d, sin);
  const auto a = hn::LoadU(d, low);
  const auto b = hn::LoadU(d, high);
  hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, low);
  hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, high);
}

HWY_INLINE void RotateHead(const float* cos_sin, size_t half, float* x) {
  const hn::CappedTag<float, 16> wide;
  const hn::CappedTag<float, 4> four;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  for (; i + hn::Lanes(wide) <= half; i += hn::Lanes(wide)) {
    RotateVector(wide, cos_sin + i, cos_sin + half + i, x + i, x + half + i);
  }
  for (; i + hn::Lanes(four) <= half; i += hn::Lanes(four)) {
    RotateVector(four, cos_sin + i, cos_sin + half + i, x + i, x + half + i);
  }
  for (; i < half; ++i) {
    RotateVector(one, cos_sin + i, cos_sin + half + i, x + i, x + half + i);
  }
}

// The cached form of a value; in FP8, a code that is multiplied by `scale` when read.
template <class T>
HWY_INLINE T Stored(float value, float scale) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    return FloatToFp8(value / scale);
  } else {
    return Narrow<T>(value);
  }
}

template <class T>
void Write(const BatchLayout& batch, const AttentionShape& shape, const float* cos_sin, float* qkv,
           const KvLayer& kv, int begin, int end) {
  auto* const keys = static_cast<T*>(kv.keys);
  auto* const values = static_cast<T*>(kv.values);
  const int dim = shape.head_dim;
  const int rotated = dim - shape.unrotated;
  const size_t width = static_cast<size_t>(shape.num_heads + 2 * shape.num_kv_heads) * dim;
  for (int r = begin; r < end; ++r) {
    float* row = qkv + r * width;
    const float* angles = cos_sin + static_cast<size_t>(batch.positions[r]) * rotated;
    for (int h = 0; h < shape.num_heads + shape.num_kv_heads; ++h) {
      RotateHead(angles, rotated / 2, row + static_cast<size_t>(h) * dim);
    }
    const float* k = row + static_cast<size_t>(shape.num_heads) * dim;
    const float* v = k + static_cast<size_t>(shape.num_kv_heads) * dim;
    for (int h = 0; h < shape.num_kv_heads; ++h, k += dim, v += dim) {
      const KvPlace place(shape, batch.slots[r], h);
      T* key = keys + place.key;
      T* value = values + place.value;
      for (int i = 0; i < dim; ++i, key += shape.page_tokens) *key = Stored<T>(k[i], kv.key_scale);
      for (int i = 0; i < dim; ++i) value[i] = Stored<T>(v[i], kv.value_scale);
    }
  }
}

void RopeAndWriteKv(const BatchLayout& batch, const AttentionShape& shape, const float* cos_sin,
                    float* qkv, const KvLayer& kv, int begin, int end) {
  switch (kv.type) {
    case KvType::kF32: Write<float>(batch, shape, cos_sin, qkv, kv, begin, end); break;
    case KvType::kBf16: Write<uint16_t>(batch, shape, cos_sin, qkv, kv, begin, end); break;
    case KvType::kFp8: Write<uint8_t>(batch, shape, cos_sin, qkv, kv, begin, end); break;
    case KvType::kF16: OUTRIDER_CHECK(false);  // comes with f16 weights, which Pack refuses
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {
namespace {

HWY_EXPORT(RopeAndWriteKv);

}  // namespace

void ChooseRope(CpuKernels& kernels) {
  kernels.rope_and_write_kv = &HWY_DYNAMIC_DISPATCH(RopeAndWriteKv);
}

}  // namespace outrider
#endif  // HWY_ONCE
