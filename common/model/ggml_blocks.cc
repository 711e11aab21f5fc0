#include "common/model/ggml_blocks.h"

#include <array>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/math/fp4.h"
#include "common/tensor/tensor.h"

namespace outrider {
namespace {

float HalfAt(const std::byte* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return F16ToFloat(bits);
}

int ByteAt(const std::byte* bytes, int index) { return std::to_integer<int>(bytes[index]); }

// Q8_0: a scale d in f16, then 32 signed bytes q. A value is q * d.
void UnpackQ8_0(const std::byte* block, GgmlBlock& out) {
  out.scales[0] = HalfAt(block);
  std::memcpy(out.codes.data(), block + 2, 32);
}

// 16 bytes: code i in the low half of byte i, code 16 + i in the high half.
void UnpackHalves(const std::byte* pairs, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = static_cast<uint8_t>(ByteAt(pairs, i) & 15);
    codes[16 + i] = static_cast<uint8_t>(ByteAt(pairs, i) >> 4);
  }
}

// Q4_0: a scale d in f16, then the codes q. A value is (q - 8) * d.
void UnpackQ4_0(const std::byte* block, GgmlBlock& out) {
  out.scales[0] = HalfAt(block);
  out.offsets[0] = -8.f * out.scales[0];
  UnpackHalves(block + 2, out.codes.data());
}

// Q5_0: a scale d in f16, 4 bytes with the high bits of codes 0 to 31, then the low bits as in
// Q4_0. A value is (q - 16) * d.
void UnpackQ5_0(const std::byte* block, GgmlBlock& out) {
  out.scales[0] = HalfAt(block);
  UnpackHalves(block + 6, out.codes.data());
  for (int i = 0; i < 32; ++i) {
    const int high = ByteAt(block + 2, i / 8) >> i % 8 & 1;
    out.codes[i] = static_cast<uint8_t>((out.codes[i] | high << 4) - 16);
  }
}

// MXFP4: the exponent of the scale, then the codes, 4-bit floats.
void UnpackMxfp4(const std::byte* block, GgmlBlock& out) {
  out.scales[0] = ExponentToFloat(std::to_integer<uint8_t>(block[0]));
  UnpackHalves(block + 1, out.codes.data());
}

// The scale and the minimum of sub-block `j`, 6 bits each, from the 12 bytes of Q4_K. The first
// four are in the low bits of bytes j and j + 4. For the last four, the low 4 bits are the halves
// of byte j + 4, and the high 2 bits are those of bytes j - 4 and j.
std::pair<int, int> ScaleAndMin(const std::byte* scales, int j) {
  if (j < 4) return {ByteAt(scales, j) & 63, ByteAt(scales, j + 4) & 63};
  const int low = ByteAt(scales, j + 4);
  return {(low & 15) | ByteAt(scales, j - 4) >> 6 << 4, low >> 4 | ByteAt(scales, j) >> 6 << 4};
}

// Q4_K, 256 values in 8 sub-blocks of 32: d and dmin in f16, 12 bytes of scales s and minima m, 128
// bytes of codes q: sub-blocks 2 p and 2 p + 1 are in the low and the high halves of bytes 32 p to
// 32 p + 31. A value is (d * s) * q - dmin * m; both products of d and dmin are exact.
void UnpackQ4_K(const std::byte* block, const std::byte* pairs, GgmlBlock& out) {
  const float d = HalfAt(block), dmin = HalfAt(block + 2);
  out.scale_unit = d;
  out.offset_unit = -dmin;
  for (int j = 0; j < 8; ++j) {
    const auto [s, m] = ScaleAndMin(block + 4, j);
    out.scales[j] = d * static_cast<float>(s);
    out.offsets[j] = -dmin * static_cast<float>(m);
    for (int i = 0; i < 32; ++i) {
      const int code = ByteAt(pairs, 32 * (j / 2) + i) >> 4 * (j % 2) & 15;
      out.codes[32 * j + i] = static_cast<uint8_t>(code);
    }
  }
}

// Q5_K: as Q4_K, with 32 bytes of high bits before the others: bit j of byte i for value i of
// sub-block j.
void UnpackQ5_K(const std::byte* block, GgmlBlock& out) {
  UnpackQ4_K(block, block + 48, out);
  for (int i = 0; i < 256; ++i) {
    const int high = ByteAt(block + 16, i % 32) >> i / 32 & 1;
    out.codes[i] = static_cast<uint8_t>(out.codes[i] | high << 4);
  }
}

// Q6_K, 256 values in 16 sub-blocks of 16: 128 bytes with the low 4 bits, 64 bytes with the high 2
// bits, 16 signed scales s, d in f16. For each half of 128 values, 64 bytes have the low bits of
// values i and 64 + i, and 32 bytes the high bits of values i, 32 + i, 64 + i and 96 + i. A value
// is (d * s) * (q - 32); the first product is exact.
void UnpackQ6_K(const std::byte* block, GgmlBlock& out) {
  const float d = HalfAt(block + 208);
  out.scale_unit = d;
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = d * static_cast<float>(std::to_integer<int8_t>(block[192 + j]));
  }
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, within = i % 128;
    const int low = ByteAt(block, 64 * half + within % 64) >> 4 * (within / 64) & 15;
    const int high = ByteAt(block, 128 + 32 * half + within % 32) >> 2 * (within / 32) & 3;
    out.codes[i] = static_cast<uint8_t>((low | high << 4) - 32);
  }
}

}  // namespace

std::optional<GgmlCodes> CodesOf(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
    case GgmlType::kF16:
    case GgmlType::kBf16: break;
    case GgmlType::kQ80: return GgmlCodes{.type = CodeType::kInt8, .group_size = 32};
    case GgmlType::kQ40:
      return GgmlCodes{.type = CodeType::kInt4, .group_size = 32, .has_offsets = true};
    case GgmlType::kQ50: return GgmlCodes{.type = CodeType::kInt8, .group_size = 32};
    case GgmlType::kQ4K:
      return GgmlCodes{
          .type = CodeType::kInt4, .group_size = 32, .has_offsets = true, .has_units = true};
    case GgmlType::kQ5K:
      return GgmlCodes{
          .type = CodeType::kInt8, .group_size = 32, .has_offsets = true, .has_units = true};
    case GgmlType::kQ6K:
      return GgmlCodes{.type = CodeType::kInt8, .group_size = 16, .has_units = true};
    case GgmlType::kMxfp4: return GgmlCodes{.type = CodeType::kFp4E2M1, .group_size = kMxGroup};
  }
  return std::nullopt;
}

void UnpackCodes(GgmlType type, const std::byte* block, GgmlBlock* out) {
  switch (type) {
    case GgmlType::kF32:
    case GgmlType::kF16:
    case GgmlType::kBf16: OUTRIDER_CHECK(false);  // they have no codes
    case GgmlType::kQ80: return UnpackQ8_0(block, *out);
    case GgmlType::kQ40: return UnpackQ4_0(block, *out);
    case GgmlType::kQ50: return UnpackQ5_0(block, *out);
    case GgmlType::kQ4K: return UnpackQ4_K(block, block + 16, *out);
    case GgmlType::kQ5K: return UnpackQ5_K(block, *out);
    case GgmlType::kQ6K: return UnpackQ6_K(block, *out);
    case GgmlType::kMxfp4: return UnpackMxfp4(block, *out);
  }
}

void Dequantize(GgmlType type, const std::byte* blocks, std::span<float> out) {
  const std::optional<GgmlCodes> kept = CodesOf(type);
  OUTRIDER_CHECK(kept.has_value());
  GgmlBlock block;
  const auto elements = static_cast<size_t>(GgmlBlockElements(type));
  for (size_t first = 0; first < out.size(); first += elements) {
    UnpackCodes(type, blocks, &block);
    for (size_t i = 0; i < elements; ++i) {
      const size_t group = i / static_cast<size_t>(kept->group_size);
      const float offset = kept->has_offsets ? block.offsets[group] : 0.f;
      out[first + i] = CodeValue(kept->type, block.codes[i]) * block.scales[group] + offset;
    }
    blocks += GgmlBlockBytes(type);
  }
}

}  // namespace outrider
