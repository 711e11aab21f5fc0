// The element type of cached keys and values.
#pragma once

#include <cstddef>

namespace outrider {

// kFp8: E4M3 (common/math/fp8.h), multiplied by its layer's scale. kF16: only on a GPU.
enum class KvType { kF32, kF16, kBf16, kFp8 };

constexpr size_t KvTypeBytes(KvType type) {
  switch (type) {
    case KvType::kF32: return 4;
    case KvType::kF16:
    case KvType::kBf16: return 2;
    case KvType::kFp8: return 1;
  }
  return 0;
}

constexpr const char* KvTypeName(KvType type) {
  switch (type) {
    case KvType::kF32: return "f32";
    case KvType::kF16: return "f16";
    case KvType::kBf16: return "bf16";
    case KvType::kFp8: return "fp8";
  }
  return "unknown";
}

}  // namespace outrider
