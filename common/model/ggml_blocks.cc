#include "common/model/ggml_blocks.h"

#include <array>
#include <cstring>
#include <utility>

#include "common/base/check.h"
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
void DequantizeQ8_0(const std::byte* block, float* out) {
  const float d = HalfAt(block);
  for (int i = 0; i < 32; ++i)
    out[i] = static_cast<float>(std::to_integer<int8_t>(block[2 + i])) * d;
}

// Q4_0: a scale d in f16, then 16 bytes: value i in the low half of byte i, value 16 + i in the
// high half. A value is (q - 8) * d.
void DequantizeQ4_0(const std::byte* block, float* out) {
  const float d = HalfAt(block);
  for (int i = 0; i < 16; ++i) {
    const int pair = ByteAt(block, 2 + i);
    out[i] = static_cast<float>((pair & 15) - 8) * d;
    out[16 + i] = static_cast<float>((pair >> 4) - 8) * d;
  }
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
// 32 p + 31. A value is (d * s) * q - dmin * m.
void DequantizeQ4_K(const std::byte* block, float* out) {
  const float d = HalfAt(block), dmin = HalfAt(block + 2);
  const std::byte* const scales = block + 4;
  const std::byte* const pairs = block + 16;
  for (int j = 0; j < 8; ++j) {
    const auto [s, m] = ScaleAndMin(scales, j);
    const float scale = d * static_cast<float>(s), minimum = dmin * static_cast<float>(m);
    for (int i = 0; i < 32; ++i) {
      const int q = ByteAt(pairs, 32 * (j / 2) + i) >> 4 * (j % 2) & 15;
      out[32 * j + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// Q6_K, 256 values in 16 sub-blocks of 16: 128 bytes with the low 4 bits, 64 bytes with the high 2
// bits, 16 signed scales s, d in f16. For each half of 128 values, 64 bytes have the low bits of
// values i and 64 + i, and 32 bytes the high bits of values i, 32 + i, 64 + i and 96 + i. A value
// is (d * s) * (q - 32).
void DequantizeQ6_K(const std::byte* block, float* out) {
  const float d = HalfAt(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, within = i % 128;
    const int low = ByteAt(block, 64 * half + within % 64) >> 4 * (within / 64) & 15;
    const int high = ByteAt(block, 128 + 32 * half + within % 32) >> 2 * (within / 32) & 3;
    const auto s = std::to_integer<int8_t>(block[192 + i / 16]);
    out[i] = d * static_cast<float>(s) * static_cast<float>((low | high << 4) - 32);
  }
}

template <void (*Of)(const std::byte*, float*)>
void ForBlocks(GgmlType type, const std::byte* blocks, std::span<float> out) {
  const auto elements = static_cast<size_t>(GgmlBlockElements(type));
  for (size_t first = 0; first < out.size(); first += elements) {
    Of(blocks, out.data() + first);
    blocks += GgmlBlockBytes(type);
  }
}

}  // namespace

void Dequantize(GgmlType type, const std::byte* blocks, std::span<float> out) {
  const auto floats = [&](Dtype dtype) {
    LoadElements({blocks, dtype, {static_cast<int64_t>(out.size())}}, 0, out);
  };
  switch (type) {
    case GgmlType::kF32: return floats(Dtype::kF32);
    case GgmlType::kF16: return floats(Dtype::kF16);
    case GgmlType::kBf16: return floats(Dtype::kBf16);
    case GgmlType::kQ80: return ForBlocks<DequantizeQ8_0>(type, blocks, out);
    case GgmlType::kQ40: return ForBlocks<DequantizeQ4_0>(type, blocks, out);
    case GgmlType::kQ4K: return ForBlocks<DequantizeQ4_K>(type, blocks, out);
    case GgmlType::kQ6K: return ForBlocks<DequantizeQ6_K>(type, blocks, out);
  }
}

void UnpackCodes(GgmlType type, const std::byte* block, uint8_t* codes, float* scale) {
  OUTRIDER_CHECK(type == GgmlType::kQ80 || type == GgmlType::kQ40);
  *scale = HalfAt(block);
  if (type == GgmlType::kQ80) {
    std::memcpy(codes, block + 2, 32);
    return;
  }
  for (int i = 0; i < 16; ++i) {
    codes[i] = static_cast<uint8_t>(ByteAt(block, 2 + i) & 15);
    codes[16 + i] = static_cast<uint8_t>(ByteAt(block, 2 + i) >> 4);
  }
}

}  // namespace outrider
