#include "common/backend/cpu/packed_panels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/backend/cpu/bf16.h"
#include "common/base/check.h"
#include "common/math/fp4.h"

namespace outrider {
namespace {

// The sum of in * 128 * 255 must stay below 2^31 in the product with 8-bit activations.
constexpr int kMaxW8A8In = 1 << 16;

// Matrices of fewer elements are packed faster by one thread than by starting others.
constexpr int64_t kSmall = int64_t{1} << 18;

// Values of one output that are moved at once: those of all of a panel's outputs stay in the cache
// while its words are assembled. Even, so that no word is split.
constexpr int kTile = 256;

// Calls f(begin, end) for consecutive shares of [0, count), on `threads` threads.
template <class F>
void ForShares(int count, int threads, const F& f) {
  std::vector<std::jthread> others;
  const int share = (count + threads - 1) / threads;
  for (int begin = share; begin < count; begin += share) {
    others.emplace_back([&f, begin, end = std::min(begin + share, count)] { f(begin, end); });
  }
  f(0, std::min(share, count));
}

bool KeepsCodes(WeightType type) {
  switch (type) {
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kFp8:
    case WeightType::kMxfp4:
    case WeightType::kW4A16: return true;
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBf16: break;
  }
  return false;
}

bool KeepsCodes(WeightType type, CodeType codes) {
  switch (codes) {
    case CodeType::kInt4: return type == WeightType::kW4A16;
    case CodeType::kInt8: return type == WeightType::kW8A16 || type == WeightType::kW8A8;
    case CodeType::kFp8E4M3: return type == WeightType::kFp8;
    case CodeType::kFp4E2M1: return type == WeightType::kMxfp4;
  }
  return false;
}

// The biased exponent of half the scale; 0 for what the product would flush to zero.
uint8_t HalfExponent(float scale) {
  const uint8_t biased = ExponentOf(scale);
  return static_cast<uint8_t>(biased > 1 ? biased - 1 : 0);
}

// The multiple of `unit` that `value` is.
int8_t MultipleOf(float value, float unit) {
  if (unit == 0.f) return 0;
  return static_cast<int8_t>(std::clamp(std::nearbyint(value / unit), -128.f, 127.f));
}

// Whether every value is an integer multiple of its unit, of a signed byte.
bool AreMultiples(std::span<const float> values, std::span<const float> units, size_t unit_groups) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float unit = units[i / unit_groups];
    if (static_cast<float>(MultipleOf(values[i], unit)) * unit != values[i]) return false;
  }
  return true;
}

// Whether units represent the scales and the offsets exactly.
bool HasUnits(const QuantizedMatrix& weight) {
  if (weight.unit_groups == 0 || weight.groups() % weight.unit_groups != 0) return false;
  const auto unit_groups = static_cast<size_t>(weight.unit_groups);
  return AreMultiples(weight.scales, weight.scale_units, unit_groups) &&
         AreMultiples(weight.offsets, weight.offset_units, unit_groups);
}

// Whether scales are exact as f16, and offsets as multiples of them. A single group is not worth
// it.
bool HasShortScales(const QuantizedMatrix& weight) {
  const bool is_integer = weight.type == CodeType::kInt4 || weight.type == CodeType::kInt8;
  if (!is_integer || weight.groups() == 1) return false;
  const auto is_f16 = [](float scale) { return F16ToFloat(FloatToF16(scale)) == scale; };
  return std::all_of(weight.scales.begin(), weight.scales.end(), is_f16) &&
         AreMultiples(weight.offsets, weight.scales, /*unit_groups=*/1);
}

bool IsPowerOfTwo(float scale) {
  int exponent = 0;
  return scale > 0 && std::isfinite(scale) && std::frexp(scale, &exponent) == 0.5f;
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
      return Unimplemented("f16 weights on the CPU: keep them as bf16, f32, int8 or int4");
    case WeightType::kW8A8:
      if (in <= kMaxW8A8In) break;
      return InvalidArgument("pack: too many inputs for 8-bit activations: " + std::to_string(in));
    case WeightType::kW8A16:
    case WeightType::kW4A16:
    case WeightType::kFp8:
    case WeightType::kMxfp4:
    case WeightType::kF32:
    case WeightType::kBf16: break;
  }
  std::unique_ptr<PanelMatrix> packed(
      new PanelMatrix(type, static_cast<int>(out), static_cast<int>(in)));
  OUTRIDER_ASSIGN(packed->panels_,
                  AlignedBytes::Allocate(packed->panel_count() * packed->panel_bytes()));
  return packed;
}

Status PanelMatrix::MakeScales(int64_t group_size, bool has_offsets, int64_t unit_groups,
                               bool fixed_w8a16) {
  const bool is_fixed = fixed_w8a16 && type_ == WeightType::kW8A16 && group_size <= kMaxFixedGroup;
  has_dot_order_ = is_fixed || type_ == WeightType::kW8A8;
  group_size_ = static_cast<int>(group_size);
  groups_ = (in_ + group_size_ - 1) / group_size_;
  has_offsets_ = has_offsets;
  unit_groups_ = static_cast<int>(unit_groups);
  const int blocks = has_offsets || type_ == WeightType::kW8A8 ? 2 : 1;
  if (has_units()) {
    OUTRIDER_ASSIGN(scales_, AlignedBytes::Allocate(MultipleAt(panel_count(), 0, has_offsets)));
    return Status();
  }
  if (has_short_scales_) {
    const size_t each = sizeof(uint16_t) + (has_offsets ? sizeof(int8_t) : 0);
    OUTRIDER_ASSIGN(scales_, AlignedBytes::Allocate(each * GroupAt(panel_count(), 0)));
    return Status();
  }
  const size_t each = type_ == WeightType::kMxfp4 ? 1 : sizeof(float);
  OUTRIDER_ASSIGN(scales_, AlignedBytes::Allocate(each * GroupAt(blocks * panel_count(), 0)));
  return Status();
}

template <class F>
void PanelMatrix::FillPanels(int threads, const F& fill) {
  const bool small = int64_t{in_} * out_ < kSmall;
  ForShares(panel_count(), small ? 1 : threads, [&](int begin, int end) {
    for (int panel = begin; panel < end; ++panel) fill(panel);
  });
}

Result<std::unique_ptr<PanelMatrix>> PanelMatrix::Pack(const TensorView& weight, WeightType type,
                                                       int threads, bool fixed_w8a16) {
  if (weight.data == nullptr || weight.shape.size() != 2) {
    return InvalidArgument("pack: not a matrix: " + weight.Describe());
  }
  OUTRIDER_ASSIGN(std::unique_ptr<PanelMatrix> packed,
                  Make(weight.shape[0], weight.shape[1], type));
  const bool rounds = KeepsCodes(type);
  if (type == WeightType::kFp8) return Unimplemented("floats are not rounded to FP8");
  if (type == WeightType::kMxfp4) return Unimplemented("floats are not rounded to MXFP4");
  if (rounds) {
    const bool is_int4 = type == WeightType::kW4A16;
    const int64_t in = weight.shape[1];
    OUTRIDER_TRY(packed->MakeScales(is_int4 ? std::min(kInt4GroupSize, in) : in, is_int4,
                                    /*unit_groups=*/0, fixed_w8a16));
  }
  packed->FillPanels(threads, [&](int panel) {
    if (rounds) {
      packed->FillRounded(weight, panel);
    } else {
      packed->FillFloats(weight, panel);
    }
  });
  return packed;
}

Result<std::unique_ptr<PanelMatrix>> PanelMatrix::Pack(const QuantizedMatrix& weight,
                                                       WeightType type, int threads,
                                                       bool fixed_w8a16) {
  if (!KeepsCodes(type, weight.type)) return InvalidArgument("pack: codes kept as another type");
  const bool is_plain = weight.groups() == 1 && weight.offsets.empty();
  if (type == WeightType::kW8A8 && !is_plain) {
    return InvalidArgument("pack: 8-bit activations want one scale an output, and no offset");
  }
  if (type == WeightType::kMxfp4 &&
      !(weight.offsets.empty() &&
        std::all_of(weight.scales.begin(), weight.scales.end(), IsPowerOfTwo))) {
    return InvalidArgument("pack: MXFP4 wants powers of two as scales, and no offset");
  }
  if (weight.groups() > 1 && weight.group_size % StepsPerWord(type) != 0) {
    return Unimplemented("groups of " + std::to_string(weight.group_size) +
                         " inputs; a multiple of " + std::to_string(StepsPerWord(type)) +
                         " is supported");
  }
  OUTRIDER_ASSIGN(std::unique_ptr<PanelMatrix> packed, Make(weight.rows, weight.columns, type));
  const bool has_units = HasUnits(weight);
  packed->has_short_scales_ = !has_units && HasShortScales(weight);
  OUTRIDER_TRY(packed->MakeScales(weight.group_size, !weight.offsets.empty(),
                                  has_units ? weight.unit_groups : 0, fixed_w8a16));
  packed->column_order_ = weight.column_order;
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
  std::vector<uint8_t> codes((in_ + 7) / 8 * 8);
  std::vector<float> scales(groups_), offsets(has_offsets_ ? groups_ : 0);
  const CodeType codes_type = type_ == WeightType::kW4A16 ? CodeType::kInt4 : CodeType::kInt8;
  for (int lane = 0; lane < LanesOf(panel); ++lane) {
    LoadElements(weight, static_cast<size_t>(panel * kPanelOutputs + lane) * in_, values);
    RoundRow(values, codes_type, group_size_, codes, scales);
    for (size_t g = 0; g < offsets.size(); ++g) offsets[g] = -8.f * scales[g];
    FillScales(panel, lane, scales, offsets);
    FillCodes(panel, lane, codes);
  }
}

void PanelMatrix::FillCopied(const QuantizedMatrix& weight, int panel) {
  std::vector<uint8_t> codes((in_ + 7) / 8 * 8);
  const auto groups = static_cast<size_t>(groups_);
  for (int lane = 0; lane < LanesOf(panel); ++lane) {
    const auto row = static_cast<size_t>(panel * kPanelOutputs + lane);
    std::copy_n(weight.codes.begin() + static_cast<ptrdiff_t>(row * in_), in_, codes.begin());
    const auto scales = std::span(weight.scales).subspan(row * groups, groups);
    std::span<const float> offsets;
    if (has_offsets_) offsets = std::span(weight.offsets).subspan(row * groups, groups);
    if (has_units()) {
      const size_t units = groups / static_cast<size_t>(unit_groups_);
      FillMultiples(panel, lane, scales, std::span(weight.scale_units).subspan(row * units, units),
                    /*offsets=*/false);
      if (has_offsets_) {
        FillMultiples(panel, lane, offsets,
                      std::span(weight.offset_units).subspan(row * units, units),
                      /*offsets=*/true);
      }
    } else if (has_short_scales_) {
      FillShortScales(panel, lane, scales, offsets);
    } else {
      FillScales(panel, lane, scales, offsets);
    }
    FillCodes(panel, lane, codes);
  }
}

void PanelMatrix::FillScales(int panel, int lane, std::span<const float> scales,
                             std::span<const float> offsets) {
  auto* const to_scales = reinterpret_cast<float*>(scales_.data());
  for (int g = 0; g < groups_; ++g) {
    const size_t group_index = GroupAt(panel, g) + lane;
    if (type_ == WeightType::kMxfp4) {
      scales_.data()[group_index] = static_cast<char>(HalfExponent(scales[g]));
      continue;
    }
    to_scales[group_index] = scales[g] * CodeUnit(type_);
    if (!offsets.empty()) to_scales[GroupAt(panel_count(), 0) + group_index] = offsets[g];
  }
}

void PanelMatrix::FillShortScales(int panel, int lane, std::span<const float> scales,
                                  std::span<const float> offsets) {
  auto* const to_scales = reinterpret_cast<uint16_t*>(scales_.data());
  char* const to_multiples = scales_.data() + sizeof(uint16_t) * GroupAt(panel_count(), 0);
  for (int g = 0; g < groups_; ++g) {
    const size_t group_index = GroupAt(panel, g) + lane;
    to_scales[group_index] = FloatToF16(scales[g]);
    if (!offsets.empty()) to_multiples[group_index] = MultipleOf(offsets[g], scales[g]);
  }
}

void PanelMatrix::FillMultiples(int panel, int lane, std::span<const float> values,
                                std::span<const float> units, bool offsets) {
  auto* const to_units = reinterpret_cast<float*>(scales_.data());
  for (int g = 0; g < groups_; ++g) {
    const int unit = g / unit_groups_;
    scales_.data()[MultipleAt(panel, g, offsets) + lane] = MultipleOf(values[g], units[unit]);
    to_units[UnitAt(panel, unit, offsets) + lane] = units[unit];
  }
}

void PanelMatrix::FillCodes(int panel, int lane, std::span<const uint8_t> codes) {
  char* const bytes = panels_.data() + panel * panel_bytes();
  switch (type_) {
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBf16: OUTRIDER_CHECK(false);  // they have no codes
    case WeightType::kW8A8: {
      int32_t sum = 0;
      for (int k = 0; k < in_; ++k) sum += static_cast<int8_t>(codes[k]);
      reinterpret_cast<int32_t*>(scales_.data())[GroupAt(panel_count() + panel, 0) + lane] = sum;
      [[fallthrough]];
    }
    case WeightType::kW8A16:
    case WeightType::kFp8:
      if (has_dot_order_) {
        for (int k = 0; k < in_; k += 4) std::memcpy(bytes + 4 * WordAt(k, lane), &codes[k], 4);
      } else {
        for (int k = 0; k < in_; ++k) bytes[k * kPanelOutputs + lane] = static_cast<char>(codes[k]);
      }
      break;
    case WeightType::kW4A16:
      for (int k = 0; k < in_; k += 8) {
        uint32_t word = 0;
        for (int i = 0; i < 8; ++i) word |= uint32_t{codes[k + i]} << (4 * i);
        std::memcpy(bytes + 4 * WordAt(k, lane), &word, 4);
      }
      break;
    case WeightType::kMxfp4:
      for (int k = 0; k < in_; k += 8) {
        char* const word = bytes + 4 * WordAt(k, lane);
        for (int i = 0; i < 4; ++i) {
          word[3 - i] = static_cast<char>(codes[k + 2 * i] | codes[k + 2 * i + 1] << 4);
        }
      }
      break;
  }
}

float PanelMatrix::ScaleOf(int panel, int lane, int group) const {
  if (type_ == WeightType::kMxfp4) {
    const uint8_t exponent = exponents(panel, group)[lane];
    return exponent == 0 ? 0.f : 2 * ExponentToFloat(exponent);
  }
  if (has_units()) {
    return static_cast<float>(multiples(panel, group, false)[lane]) *
           units(panel, group, false)[lane];
  }
  if (has_short_scales_) return F16ToFloat(short_scales(panel, group)[lane]);
  return scales(panel, group)[lane] / CodeUnit(type_);
}

float PanelMatrix::OffsetOf(int panel, int lane, int group) const {
  if (!has_offsets_) return 0.f;
  if (has_units()) {
    return static_cast<float>(multiples(panel, group, true)[lane]) *
           units(panel, group, true)[lane];
  }
  if (has_short_scales_) {
    return static_cast<float>(scale_multiples(panel, group)[lane]) * ScaleOf(panel, lane, group);
  }
  return offsets(panel, group)[lane];
}

float PanelMatrix::WidenCode(int output, int k) const {
  const int panel = output / kPanelOutputs, lane = output % kPanelOutputs;
  const auto* const bytes =
      reinterpret_cast<const uint8_t*>(panels()) + static_cast<size_t>(panel) * panel_bytes();
  const int group = k / group_size_;
  const float scale = ScaleOf(panel, lane, group);
  const float offset = OffsetOf(panel, lane, group);
  switch (type_) {
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBf16: OUTRIDER_CHECK(false);  // they have no codes
    case WeightType::kW8A16:
    case WeightType::kW8A8:
      return CodeValue(CodeType::kInt8, bytes[ByteAt(k, lane)]) * scale + offset;
    case WeightType::kFp8:
      return CodeValue(CodeType::kFp8E4M3, bytes[ByteAt(k, lane)]) * scale + offset;
    case WeightType::kW4A16: {
      const uint8_t pair = bytes[4 * WordAt(k, lane) + k % 8 / 2];
      const auto code = static_cast<uint8_t>(k % 2 == 0 ? pair & 15 : pair >> 4);
      return CodeValue(CodeType::kInt4, code) * scale + offset;
    }
    case WeightType::kMxfp4: {
      const uint8_t pair = bytes[4 * WordAt(k, lane) + 3 - k % 8 / 2];
      return CodeValue(CodeType::kFp4E2M1, k % 2 == 0 ? pair & 15 : pair >> 4) * scale;
    }
  }
  return 0;
}

void PanelMatrix::Unpack(int output, float* row) const {
  const char* panel = panels() + output / kPanelOutputs * panel_bytes();
  const int lane = output % kPanelOutputs;
  for (int k = 0; k < in_; ++k) {
    switch (type_) {
      case WeightType::kF16: OUTRIDER_CHECK(false);  // Pack refuses it
      case WeightType::kF32: row[k] = reinterpret_cast<const float*>(panel)[WordAt(k, lane)]; break;
      case WeightType::kBf16:
        row[k] = Bf16ToFloat(reinterpret_cast<const uint16_t*>(panel)[2 * WordAt(k, lane) + k % 2]);
        break;
      case WeightType::kW8A16:
      case WeightType::kW8A8:
      case WeightType::kFp8:
      case WeightType::kMxfp4:
      case WeightType::kW4A16:
        row[column_order_.empty() ? k : column_order_[k]] = WidenCode(output, k);
        break;
    }
  }
}

}  // namespace outrider
