#include "tests/support/ggml_types.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "common/tensor/tensor.h"

namespace outrider {
namespace {

float HalfOf(const std::string& bytes, size_t offset) {
  uint16_t half;
  std::memcpy(&half, bytes.data() + offset, 2);
  return F16ToFloat(half);
}

int ByteOf(const std::string& bytes, size_t offset) {
  return static_cast<unsigned char>(bytes[offset]);
}

// The half nearest to `value`, as bytes, and its value.
std::pair<std::string, float> AsHalf(float value) {
  const uint16_t half = FloatToF16(value);
  return {LittleEndian(half), F16ToFloat(half)};
}

float LargestOf(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

int Rounded(float value, float scale, int low, int high) {
  return scale == 0 ? 0 : std::clamp(static_cast<int>(std::lround(value / scale)), low, high);
}

std::string EncodeQ8_0(std::span<const float> x) {
  auto [bytes, d] = AsHalf(LargestOf(x) / 127);
  for (const float value : x) bytes += static_cast<char>(Rounded(value, d, -127, 127));
  return bytes;
}

std::string EncodeQ4_0(std::span<const float> x) {
  auto [bytes, d] = AsHalf(LargestOf(x) / -8);
  for (size_t i = 0; i < 16; ++i) {
    const int low = Rounded(x[i], d, -8, 7) + 8, high = Rounded(x[16 + i], d, -8, 7) + 8;
    bytes += static_cast<char>(low | high << 4);
  }
  return bytes;
}

// Packs 8 scales and 8 minima of 6 bits into 12 bytes: the first four of each in the low 6 bits of
// bytes 0 to 3 and 4 to 7; the low 4 bits of the others in bytes 8 to 11, their high 2 bits above
// the first ones.
std::string PackScales(const std::array<int, 8>& scales, const std::array<int, 8>& minima) {
  std::string bytes(12, '\0');
  for (size_t j = 0; j < 4; ++j) {
    bytes[j] = static_cast<char>(scales[j] | scales[j + 4] >> 4 << 6);
    bytes[j + 4] = static_cast<char>(minima[j] | minima[j + 4] >> 4 << 6);
    bytes[j + 8] = static_cast<char>((scales[j + 4] & 15) | (minima[j + 4] & 15) << 4);
  }
  return bytes;
}

// Q5_0's codes have 5 bits, of which the highest are in 4 bytes before the others.
std::string EncodeQ5_0(std::span<const float> x) {
  auto [bytes, d] = AsHalf(LargestOf(x) / -16);
  uint32_t high_bits = 0;
  std::string pairs;
  for (size_t i = 0; i < 16; ++i) {
    const int low = Rounded(x[i], d, -16, 15) + 16, high = Rounded(x[16 + i], d, -16, 15) + 16;
    high_bits |= static_cast<uint32_t>(low >> 4) << i | static_cast<uint32_t>(high >> 4)
                                                            << (16 + i);
    pairs += static_cast<char>((low & 15) | (high & 15) << 4);
  }
  return bytes + LittleEndian(high_bits) + pairs;
}

// With `most` 31, Q5_K: the high bits of codes are in 32 bytes before the others.
std::string EncodeKQuant(std::span<const float> x, int most) {
  std::array<float, 8> steps, lowest;
  for (size_t j = 0; j < 8; ++j) {
    const auto part = x.subspan(32 * j, 32);
    lowest[j] = std::max(0.f, -*std::min_element(part.begin(), part.end()));
    steps[j] = (*std::max_element(part.begin(), part.end()) + lowest[j]) / static_cast<float>(most);
  }
  const auto [d_bytes, d] = AsHalf(LargestOf(steps) / 63);
  const auto [m_bytes, dmin] = AsHalf(LargestOf(lowest) / 63);
  std::array<int, 8> scales, minima;
  std::string codes(128, '\0'), high_bits(most > 15 ? 32 : 0, '\0');
  for (size_t j = 0; j < 8; ++j) {
    scales[j] = Rounded(steps[j], d, 0, 63);
    minima[j] = Rounded(lowest[j], dmin, 0, 63);
    const float step = d * static_cast<float>(scales[j]);
    const float minimum = dmin * static_cast<float>(minima[j]);
    for (size_t i = 0; i < 32; ++i) {
      const int code = Rounded(x[32 * j + i] + minimum, step, 0, most);
      char& pair = codes[32 * (j / 2) + i];
      pair = static_cast<char>(pair | (code & 15) << 4 * (j % 2));
      if (most > 15) high_bits[i] = static_cast<char>(high_bits[i] | code >> 4 << j);
    }
  }
  return d_bytes + m_bytes + PackScales(scales, minima) + high_bits + codes;
}

std::string EncodeQ4_K(std::span<const float> x) { return EncodeKQuant(x, 15); }
std::string EncodeQ5_K(std::span<const float> x) { return EncodeKQuant(x, 31); }

std::string EncodeQ6_K(std::span<const float> x) {
  std::array<float, 16> steps;
  for (size_t j = 0; j < 16; ++j) steps[j] = LargestOf(x.subspan(16 * j, 16)) / 31;
  const auto [d_bytes, d] = AsHalf(LargestOf(steps) / 127);
  std::string low(128, '\0'), high(64, '\0'), scales;
  for (size_t j = 0; j < 16; ++j) {
    // Includes negative scales.
    const int scale = (j % 3 == 0 ? -1 : 1) * Rounded(steps[j], d, 0, 127);
    scales += static_cast<char>(scale);
    for (size_t i = 16 * j; i < 16 * j + 16; ++i) {
      const int code = Rounded(x[i], d * static_cast<float>(scale), -32, 31) + 32;
      const size_t half = i / 128, within = i % 128;
      char& low_byte = low[64 * half + within % 64];
      low_byte = static_cast<char>(low_byte | (code & 15) << 4 * (within / 64));
      char& high_byte = high[32 * half + within % 32];
      high_byte = static_cast<char>(high_byte | code >> 4 << 2 * (within / 32));
    }
  }
  return low + high + scales + d_bytes;
}

void DecodeQ8_0(const std::string& b, size_t offset, std::vector<float>* out) {
  for (size_t i = 0; i < 32; ++i) {
    out->push_back(HalfOf(b, offset) *
                   static_cast<float>(static_cast<signed char>(b[offset + 2 + i])));
  }
}

void DecodeQ4_0(const std::string& b, size_t offset, std::vector<float>* out) {
  for (size_t i = 0; i < 32; ++i) {
    const int code = ByteOf(b, offset + 2 + i % 16) >> (i < 16 ? 0 : 4) & 15;
    out->push_back(HalfOf(b, offset) * static_cast<float>(code - 8));
  }
}

void DecodeQ5_0(const std::string& b, size_t offset, std::vector<float>* out) {
  uint32_t high_bits;
  std::memcpy(&high_bits, b.data() + offset + 2, 4);
  for (size_t i = 0; i < 32; ++i) {
    const int low = ByteOf(b, offset + 6 + i % 16) >> (i < 16 ? 0 : 4) & 15;
    const int code = low + ((high_bits >> i & 1) != 0 ? 16 : 0);
    out->push_back(HalfOf(b, offset) * static_cast<float>(code - 16));
  }
}

// The codes begin `codes` bytes after the block's first; `high_bits` is 0 without any.
void DecodeKQuant(const std::string& b, size_t offset, size_t codes, size_t high_bits,
                  std::vector<float>* out) {
  for (size_t i = 0; i < 256; ++i) {
    const size_t j = i / 32, scales = offset + 4;
    int scale = ByteOf(b, scales + j % 4) & 63, minimum = ByteOf(b, scales + 4 + j % 4) & 63;
    if (j >= 4) {
      const int low = ByteOf(b, scales + 4 + j);
      scale = low % 16 + ByteOf(b, scales + j - 4) / 64 * 16;
      minimum = low / 16 + ByteOf(b, scales + j) / 64 * 16;
    }
    const int pair = ByteOf(b, offset + codes + 32 * (j / 2) + i % 32);
    int code = j % 2 == 0 ? pair % 16 : pair / 16;
    if (high_bits > 0 && (ByteOf(b, offset + high_bits + i % 32) >> j) % 2 == 1) code += 16;
    out->push_back(HalfOf(b, offset) * static_cast<float>(scale) * static_cast<float>(code) -
                   HalfOf(b, offset + 2) * static_cast<float>(minimum));
  }
}

void DecodeQ4_K(const std::string& b, size_t offset, std::vector<float>* out) {
  DecodeKQuant(b, offset, 16, 0, out);
}
void DecodeQ5_K(const std::string& b, size_t offset, std::vector<float>* out) {
  DecodeKQuant(b, offset, 48, 16, out);
}

void DecodeQ6_K(const std::string& b, size_t offset, std::vector<float>* out) {
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128, within = i % 128;
    const int low_byte = ByteOf(b, offset + 64 * half + within % 64);
    const int low = within < 64 ? low_byte % 16 : low_byte / 16;
    const int high = ByteOf(b, offset + 128 + 32 * half + within % 32) >> 2 * (within / 32) & 3;
    const auto scale = static_cast<float>(static_cast<signed char>(b[offset + 192 + i / 16]));
    out->push_back(HalfOf(b, offset + 208) * scale * static_cast<float>(low + 16 * high - 32));
  }
}

constexpr float kFp4Values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

// OCP Microscaling Formats 1.0, section 6.3: the largest value's exponent, less that of 4.
std::string EncodeMxfp4(std::span<const float> x) {
  const float largest = LargestOf(x);
  const int exponent = largest > 0 ? static_cast<int>(std::floor(std::log2(largest))) - 2 : 0;
  const auto code_of = [&](float value) {
    const float magnitude = std::ldexp(std::abs(value), -exponent);
    const auto* const nearest = std::min_element(
        std::begin(kFp4Values), std::end(kFp4Values),
        [&](float a, float b) { return std::abs(a - magnitude) < std::abs(b - magnitude); });
    return static_cast<int>(nearest - kFp4Values) + (value < 0 ? 8 : 0);
  };
  std::string bytes(1, static_cast<char>(exponent + 127));
  for (size_t i = 0; i < 16; ++i) {
    bytes += static_cast<char>(code_of(x[i]) | code_of(x[16 + i]) << 4);
  }
  return bytes;
}

void DecodeMxfp4(const std::string& b, size_t offset, std::vector<float>* out) {
  for (size_t i = 0; i < 32; ++i) {
    const int code = ByteOf(b, offset + 1 + i % 16) >> (i < 16 ? 0 : 4) & 15;
    const float value = std::ldexp(kFp4Values[code % 8], ByteOf(b, offset) - 127);
    out->push_back(code < 8 ? value : -value);
  }
}

struct BlockType {
  uint32_t number;
  size_t elements, bytes;
  std::string (*encode)(std::span<const float>);
  void (*decode)(const std::string&, size_t, std::vector<float>*);
};

std::string EncodeF32(std::span<const float> x) { return LittleEndian(x[0]); }
std::string EncodeF16(std::span<const float> x) { return LittleEndian(FloatToF16(x[0])); }
std::string EncodeBf16(std::span<const float> x) { return LittleEndian(FloatToBf16(x[0])); }
void DecodeF32(const std::string& b, size_t offset, std::vector<float>* out) {
  std::memcpy(&out->emplace_back(), b.data() + offset, sizeof(float));
}
void DecodeF16(const std::string& b, size_t offset, std::vector<float>* out) {
  out->push_back(HalfOf(b, offset));
}
void DecodeBf16(const std::string& b, size_t offset, std::vector<float>* out) {
  uint16_t bits;
  std::memcpy(&bits, b.data() + offset, 2);
  out->push_back(Bf16ToFloat(bits));
}

const BlockType& TypeOf(const std::string& name) {
  static const std::map<std::string, BlockType> kTypes = {
      {"F32", {0, 1, 4, EncodeF32, DecodeF32}},
      {"F16", {1, 1, 2, EncodeF16, DecodeF16}},
      {"BF16", {30, 1, 2, EncodeBf16, DecodeBf16}},
      {"Q8_0", {8, 32, 34, EncodeQ8_0, DecodeQ8_0}},
      {"Q4_0", {2, 32, 18, EncodeQ4_0, DecodeQ4_0}},
      {"Q5_0", {6, 32, 22, EncodeQ5_0, DecodeQ5_0}},
      {"Q5_K", {13, 256, 176, EncodeQ5_K, DecodeQ5_K}},
      {"Q4_K", {12, 256, 144, EncodeQ4_K, DecodeQ4_K}},
      {"Q6_K", {14, 256, 210, EncodeQ6_K, DecodeQ6_K}},
      {"MXFP4", {39, 32, 17, EncodeMxfp4, DecodeMxfp4}}};
  return kTypes.at(name);
}

}  // namespace

uint32_t GgmlTypeNumber(const std::string& type) { return TypeOf(type).number; }

std::string GgmlEncode(const std::string& type, std::span<const float> values) {
  const BlockType& block = TypeOf(type);
  std::string bytes;
  for (size_t offset = 0; offset < values.size(); offset += block.elements) {
    bytes += block.encode(values.subspan(offset, block.elements));
  }
  return bytes;
}

std::vector<float> GgmlDecode(const std::string& type, const std::string& bytes) {
  const BlockType& block = TypeOf(type);
  std::vector<float> values;
  for (size_t offset = 0; offset < bytes.size(); offset += block.bytes) {
    block.decode(bytes, offset, &values);
  }
  return values;
}

}  // namespace outrider
