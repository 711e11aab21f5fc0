#include "common/backend/cpu/packed_panels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/check.h"

namespace outrider {
namespace {

// The sum of in * 127 * 255 must stay below 2^31 in the int8 product.
constexpr int kMaxInt8In = 1 << 16;

}  // namespace

Result<std::unique_ptr<PanelMatrix>> PanelMatrix::Pack(const TensorView& weight, WeightType type) {
  constexpr int64_t kMaxSide = std::numeric_limits<int>::max() - kPanelOutputs;
  if (weight.data == nullptr || weight.shape.size() != 2) {
    return InvalidArgument("pack: not a matrix: " + weight.Describe());
  }
  const int64_t out = weight.shape[0];
  const int64_t in = weight.shape[1];
  if (out < 1 || in < 1 || out > kMaxSide || in > kMaxSide) {
    return InvalidArgument("pack: sides out of range: " + weight.Describe());
  }
  switch (type) {
    case WeightType::kF16:
      return Unimplemented("f16 weights on the CPU: keep them as bf16, f32 or int8");
    case WeightType::kInt8:
      if (in <= kMaxInt8In) break;
      return InvalidArgument("pack: too many inputs for int8: " + weight.Describe());
    case WeightType::kF32:
    case WeightType::kBf16: break;
  }
  std::unique_ptr<PanelMatrix> packed(
      new PanelMatrix(type, static_cast<int>(out), static_cast<int>(in)));
  OUTRIDER_ASSIGN(packed->panels_,
                  AlignedBytes::Allocate(packed->panel_count() * packed->panel_bytes()));
  switch (type) {
    case WeightType::kF32:
    case WeightType::kBf16: packed->FillFloats(weight); break;
    case WeightType::kInt8: {
      OUTRIDER_ASSIGN(packed->rows_,
                      AlignedBytes::Allocate(size_t{8} * packed->panel_count() * kPanelOutputs));
      packed->FillInt8(weight);
      break;
    }
    case WeightType::kF16: OUTRIDER_CHECK(false);  // refused above
  }
  return packed;
}

void PanelMatrix::FillFloats(const TensorView& weight) {
  for (int first = 0; first < out_; first += kPanelOutputs) {
    char* panel = panels_.data() + first / kPanelOutputs * panel_bytes();
    const int lanes = std::min(kPanelOutputs, out_ - first);
    // k outside: the panel is written in order, and 32 rows are read side by side.
    for (int k = 0; k < in_; ++k) {
      const size_t first_word = static_cast<size_t>(k / StepsPerWord(type_)) * kPanelOutputs;
      for (int lane = 0; lane < lanes; ++lane) {
        const float value = LoadElement(weight, static_cast<size_t>(first + lane) * in_ + k);
        const size_t word = first_word + lane;
        switch (type_) {
          case WeightType::kF32: reinterpret_cast<float*>(panel)[word] = value; break;
          case WeightType::kBf16:
            reinterpret_cast<uint16_t*>(panel)[word * 2 + k % 2] = FloatToBf16(value);
            break;
          case WeightType::kF16:
          case WeightType::kInt8: OUTRIDER_CHECK(false);  // Pack does not ask for them
        }
      }
    }
  }
}

void PanelMatrix::FillInt8(const TensorView& weight) {
  float* scales = reinterpret_cast<float*>(rows_.data());
  int32_t* sums = reinterpret_cast<int32_t*>(scales + panel_count() * kPanelOutputs);
  for (int o = 0; o < out_; ++o) {
    const size_t first = static_cast<size_t>(o) * in_;
    float max = 0.f;
    for (int k = 0; k < in_; ++k) max = std::max(max, std::fabs(LoadElement(weight, first + k)));
    scales[o] = max / 127.f;
    const float inverse = max > 0.f ? 127.f / max : 0.f;
    int8_t* panel = reinterpret_cast<int8_t*>(panels_.data() + o / kPanelOutputs * panel_bytes());
    for (int k = 0; k < in_; ++k) {
      const float steps = std::nearbyint(LoadElement(weight, first + k) * inverse);
      const auto value = static_cast<int8_t>(std::clamp(steps, -127.f, 127.f));
      const size_t word = static_cast<size_t>(k / 4) * kPanelOutputs + o % kPanelOutputs;
      panel[word * 4 + k % 4] = value;
      sums[o] += value;
    }
  }
}

void PanelMatrix::Unpack(int output, float* row) const {
  const char* panel = panels() + output / kPanelOutputs * panel_bytes();
  const int lane = output % kPanelOutputs;
  const int steps = StepsPerWord(type_);
  for (int k = 0; k < in_; ++k) {
    const size_t at = (static_cast<size_t>(k / steps) * kPanelOutputs + lane) * steps + k % steps;
    switch (type_) {
      case WeightType::kF16: OUTRIDER_CHECK(false);  // Pack refuses it
      case WeightType::kF32: row[k] = reinterpret_cast<const float*>(panel)[at]; break;
      case WeightType::kBf16:
        row[k] = Bf16ToFloat(reinterpret_cast<const uint16_t*>(panel)[at]);
        break;
      case WeightType::kInt8:
        row[k] = static_cast<float>(reinterpret_cast<const int8_t*>(panel)[at]) * scales()[output];
        break;
    }
  }
}

}  // namespace outrider
