#include "common/tensor/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace outrider {

const char* DtypeName(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32: return "f32";
    case Dtype::kF16: return "f16";
    case Dtype::kBf16: return "bf16";
  }
  return "unknown";
}

size_t TensorView::elements() const {
  size_t n = 1;
  for (const int64_t d : shape) n *= static_cast<size_t>(d);
  return n;
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text;
  for (const int64_t side : shape) text += (text.empty() ? "" : ", ") + std::to_string(side);
  return "[" + text + "]";
}

std::string TensorView::Describe() const { return ShapeText(shape) + " " + DtypeName(dtype); }

float LoadElement(const TensorView& tensor, size_t index) {
  float value = 0;
  LoadElements(tensor, index, {&value, 1});
  return value;
}

void LoadElements(const TensorView& tensor, size_t first, std::span<float> out) {
  const char* bytes = static_cast<const char*>(tensor.data) + first * DtypeBytes(tensor.dtype);
  const auto bits = [bytes](size_t i) {
    uint16_t value;
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);  // need not be aligned
    return value;
  };
  switch (tensor.dtype) {
    case Dtype::kF32: std::memcpy(out.data(), bytes, out.size_bytes()); return;
    case Dtype::kF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = F16ToFloat(bits(i));
      return;
    case Dtype::kBf16:  // a loop that the compiler vectorises
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = std::bit_cast<float>(static_cast<uint32_t>(bits(i)) << 16);
      }
      return;
  }
}

namespace {

// The first of `count` patterns that is at least `limit`, without its sign. Magnitudes of floats
// are of the order of their patterns, and NaNs and infinities have the largest ones.
template <class Pattern>
size_t FindPattern(const char* bytes, size_t count, Pattern limit) {
  constexpr auto kMagnitude = static_cast<Pattern>(std::numeric_limits<Pattern>::max() >> 1);
  constexpr size_t kBlock = 1024;  // a constant, for the compiler to vectorise the loop
  const auto is_unfit = [&](size_t i) {
    Pattern pattern;
    std::memcpy(&pattern, bytes + i * sizeof pattern, sizeof pattern);  // need not be aligned
    return static_cast<Pattern>(pattern & kMagnitude) >= limit;
  };
  size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    unsigned found = 0;
    for (size_t k = 0; k < kBlock; ++k) found |= static_cast<unsigned>(is_unfit(i + k));
    if (found != 0) break;
  }
  while (i < count && !is_unfit(i)) ++i;
  return i;
}

}  // namespace

size_t FindUnfit(const TensorView& tensor, float limit) {
  const char* bytes = static_cast<const char*>(tensor.data);
  const uint32_t pattern = std::bit_cast<uint32_t>(limit);
  switch (tensor.dtype) {
    case Dtype::kF32: return FindPattern<uint32_t>(bytes, tensor.elements(), pattern);
    case Dtype::kBf16:
      return FindPattern<uint16_t>(bytes, tensor.elements(),
                                   static_cast<uint16_t>((pattern + 0xffff) >> 16));
    case Dtype::kF16: return FindPattern<uint16_t>(bytes, tensor.elements(), FloatToF16(limit));
  }
  return tensor.elements();
}

float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float F16ToFloat(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.f : 1.f;
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
}

uint16_t FloatToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.f) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < std::ldexp(1.f, -14)) {  // subnormal: steps of 2^-24
    return static_cast<uint16_t>(sign |
                                 static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))));
  }
  int exponent;
  const float fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const auto mantissa =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));  // [1024, 2048]
  return static_cast<uint16_t>(sign + (static_cast<uint32_t>(exponent + 13) << 10) + mantissa);
}

}  // namespace outrider
