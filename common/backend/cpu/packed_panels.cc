#include "common/backend/cpu/packed_panels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/backend/cpu/bf16.h"
#include "common/base/check.h"

namespace outrider {
namespace {

// The sum of in * 128 * 255 must stay below 2^31 in the product with 8-bit activations.
constexpr int kMaxW8A8In = 1 << 16;

// Elements of a matrix that one thread packs sooner than others are started.
constexpr int64_t kSmall = int64_t{1} << 18;

// Values of one output that are moved at once: those of all of a panel's outputs stay in the cache
// while its words are put together. Even, so that no word is split.
constexpr int kTile = 256;

// To the nearest integer, ties to even, in a loop that the compiler vectorises: adding 1.5 * 2^23
// leaves no bits for a fraction. REQUIRES: |x| < 2^22.
float RoundToEven(float x) {
  constexpr float kNoFraction = 12582912.f;
  return x + kNoFraction - kNoFraction;
}

// f(begin, end) for consecutive shares of [0, count), on `threads` threads.
template <class F>
void ForShares(int count, int threads, const F& f) {
  std::vector<std::jthread> others;
  const int share = (count + threads - 1) / threads;
  for (int begin = share; begin < count; begin += share) {
    others.emplace_back([&f, begin, end = std::min(begin + share, count)] { f(begin, end); });
  }
  f(0, std::min(share, count));
}

}  // namespace

Result<std::unique_ptr<PanelMatrix>> PanelMatrix::Make(int64_t out, int64_t in, WeightType type) {
  constexpr int64_t kMaxSide = std::numeric_limits<int>::max() - kPanelOutputs;
  if (out < 1 || in < 1 || out > kMaxSide || in > kMaxSide) {
    return InvalidArgument("pack: sides out of range: [" + std::to_string(out) + ", " +
                           std::to_string(in) + "]");
  }
  switch (type) {
    case WeightType::kF16:
      return Unimplemented("f16 weights on the CPU: keep them as bf16, f32 or int8");
    case WeightType::kW8A8:
      if (in <= kMaxW8A8In) break;
      return InvalidArgument("pack: too many inputs for 8-bit activations: " + std::to_string(in));
    case WeightType::kW8A16:
    case WeightType::kF32:
    case WeightType::kBf16: break;
  }
  std::unique_ptr<PanelMatrix> packed(
      new PanelMatrix(type, static_cast<int>(out), static_cast<int>(in)));
  OUTRIDER_ASSIGN(packed->panels_,
                  AlignedBytes::Allocate(packed->panel_count() * packed->panel_bytes()));
  if (IsInt8(type)) {
    OUTRIDER_ASSIGN(packed->rows_,
                    AlignedBytes::Allocate(size_t{8} * packed->panel_count() * kPanelOutputs));
  }
  return packed;
}

template <class F>
void PanelMatrix::FillPanels(int threads, const F& fill) {
  const bool small = int64_t{in_} * out_ < kSmall;
  ForShares(panel_count(), small ? 1 : threads, [&](int begin, int end) {
    for (int panel = begin; panel < end; ++panel) fill(panel);
  });
}

Result<std::unique_ptr<PanelMatrix>> PanelMatrix::Pack(const TensorView& weight, WeightType type,
                                                       int threads) {
  if (weight.data == nullptr || weight.shape.size() != 2) {
    return InvalidArgument("pack: not a matrix: " + weight.Describe());
  }
  OUTRIDER_ASSIGN(std::unique_ptr<PanelMatrix> packed,
                  Make(weight.shape[0], weight.shape[1], type));
  packed->FillPanels(threads, [&](int panel) {
    if (IsInt8(type)) {
      packed->FillRounded(weight, panel);
    } else {
      packed->FillFloats(weight, panel);
    }
  });
  return packed;
}

Result<std::unique_ptr<PanelMatrix>> PanelMatrix::Pack(const Int8Matrix& weight, WeightType type,
                                                       int threads) {
  if (!IsInt8(type)) return InvalidArgument("pack: 8-bit integers kept as floats");
  OUTRIDER_ASSIGN(std::unique_ptr<PanelMatrix> packed, Make(weight.rows, weight.columns, type));
  packed->FillPanels(threads, [&](int panel) { packed->FillCopied(weight, panel); });
  return packed;
}

void PanelMatrix::FillFloats(const TensorView& weight, int panel) {
  char* const words = panels_.data() + panel * panel_bytes();
  std::array<float, kTile> tile;
  for (int first = 0; first < in_; first += kTile) {
    const int count = std::min(kTile, in_ - first);
    for (int lane = 0; lane < LanesOf(panel); ++lane) {
      const size_t row = static_cast<size_t>(panel * kPanelOutputs + lane) * in_;
      LoadElements(weight, row + first, std::span(tile).first(count));
      if (type_ == WeightType::kF32) {
        float* to = reinterpret_cast<float*>(words) + WordAt(first, lane);
        for (int k = 0; k < count; ++k) to[k * kPanelOutputs] = tile[k];
      } else {
        auto* to = reinterpret_cast<uint16_t*>(words) + 2 * WordAt(first, lane);
        for (int k = 0; k < count; ++k) {
          to[k / 2 * 2 * kPanelOutputs + k % 2] = Narrow<uint16_t>(tile[k]);
        }
      }
    }
  }
}

void PanelMatrix::FillRounded(const TensorView& weight, int panel) {
  std::vector<float> values(in_);
  std::vector<int8_t> integers((in_ + 3) / 4 * 4);
  for (int lane = 0; lane < LanesOf(panel); ++lane) {
    LoadElements(weight, static_cast<size_t>(panel * kPanelOutputs + lane) * in_, values);
    // Magnitudes are ordered as their bits are.
    uint32_t largest = 0;
    for (const float value : values) {
      largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
    }
    const auto max = std::bit_cast<float>(largest);
    const float inverse = max > 0.f ? 127.f / max : 0.f;
    for (int k = 0; k < in_; ++k) {
      const auto nearest = static_cast<int32_t>(RoundToEven(values[k] * inverse));
      integers[k] = static_cast<int8_t>(std::clamp(nearest, -127, 127));
    }
    FillOutput(panel, lane, integers.data(), max / 127.f);
  }
}

void PanelMatrix::FillCopied(const Int8Matrix& weight, int panel) {
  std::vector<int8_t> integers((in_ + 3) / 4 * 4);
  for (int lane = 0; lane < LanesOf(panel); ++lane) {
    const auto row = static_cast<size_t>(panel * kPanelOutputs + lane);
    std::copy_n(weight.integers + row * in_, in_, integers.begin());
    FillOutput(panel, lane, integers.data(), weight.scales[row]);
  }
}

void PanelMatrix::FillOutput(int panel, int lane, const int8_t* integers, float scale) {
  auto* const scales = reinterpret_cast<float*>(rows_.data());
  auto* const sums = reinterpret_cast<int32_t*>(scales + panel_count() * kPanelOutputs);
  const int output = panel * kPanelOutputs + lane;
  scales[output] = scale;
  sums[output] = std::accumulate(integers, integers + in_, int32_t{0});
  auto* const bytes = reinterpret_cast<int8_t*>(panels_.data() + panel * panel_bytes());
  if (type_ == WeightType::kW8A16) {
    for (int k = 0; k < in_; ++k) bytes[k * kPanelOutputs + lane] = integers[k];
  } else {
    for (int k = 0; k < in_; k += 4) std::memcpy(bytes + 4 * WordAt(k, lane), integers + k, 4);
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
      case WeightType::kW8A16:
        row[k] =
            static_cast<float>(reinterpret_cast<const int8_t*>(panel)[k * kPanelOutputs + lane]) *
            scales()[output];
        break;
      case WeightType::kW8A8:
        row[k] = static_cast<float>(reinterpret_cast<const int8_t*>(panel)[at]) * scales()[output];
        break;
    }
  }
}

}  // namespace outrider
