// Encodes and decodes the values of tensors as GGUF files store them, for tests. Shares no code
// with common/model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace outrider {

// A number's bytes in little-endian order.
template <class T>
std::string LittleEndian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// The number of "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_0", "Q4_K", "Q5_K", "Q6_K" or "MXFP4",
// and the encoded values. REQUIRES: whole blocks.
uint32_t GgmlTypeNumber(const std::string& type);
std::string GgmlEncode(const std::string& type, std::span<const float> values);
// Decodes such bytes.
std::vector<float> GgmlDecode(const std::string& type, const std::string& bytes);

}  // namespace outrider
