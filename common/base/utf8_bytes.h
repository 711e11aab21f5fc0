// Counts the characters of UTF-8 by their bytes.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string_view>

namespace outrider {

// Whether the byte is one of a character's, but not its first.
constexpr bool IsContinuationByte(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

constexpr size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += !IsContinuationByte(byte);
  return count;
}

}  // namespace outrider
