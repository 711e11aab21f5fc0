// Element types and views of tensors in host memory: what a checkpoint file holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace outrider {

enum class Dtype { kF32, kF16, kBf16 };

constexpr size_t DtypeBytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32: return 4;
    case Dtype::kF16:
    case Dtype::kBf16: return 2;
  }
  return 0;
}
const char* DtypeName(Dtype dtype);

// "[2048, 512]": a shape, or the indices of an element.
std::string ShapeText(std::span<const int64_t> shape);

// A dense row-major tensor that somebody else owns (the mapped file).
struct TensorView {
  const void* data = nullptr;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;

  size_t elements() const;
  // "[2048, 512] bf16"
  std::string Describe() const;
};

// The value of element `index`, widened to float.
float LoadElement(const TensorView& tensor, size_t index);
// Those from `first` on, as many as `out` has room for.
void LoadElements(const TensorView& tensor, size_t first, std::span<float> out);

// The first element that is NaN, infinite, or of at least `limit` in magnitude; elements() if there
// is none. One pass at about the speed of the memory.
size_t FindUnfit(const TensorView& tensor, float limit = std::numeric_limits<float>::infinity());

float Bf16ToFloat(uint16_t bits);
uint16_t FloatToBf16(float value);  // round to nearest even; NaN stays NaN
float F16ToFloat(uint16_t bits);
uint16_t FloatToF16(float value);  // round to nearest even, overflow to infinity

}  // namespace outrider
