// FNV-1a, 64 bit, with numbers as eight little-endian bytes on every machine. Detects mistakes, not
// forgeries.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <string_view>

namespace outrider {

class FnvHash {
 public:
  FnvHash() = default;
  // Goes on where the hash of this value ended.
  explicit FnvHash(uint64_t value) : value_(value) {}

  void Add(std::string_view bytes) {
    Add(bytes.size());  // so that "ab","c" and "a","bc" differ
    AddBytes(bytes);
  }
  // The bytes alone: "ab","c" and "a","bc" are the same.
  void AddBytes(std::string_view bytes) {
    for (const char c : bytes) AddByte(static_cast<uint8_t>(c));
  }
  void Add(uint64_t number) {
    for (int i = 0; i < 8; ++i) AddByte(static_cast<uint8_t>(number >> 8 * i));
  }
  uint64_t value() const { return value_; }

 private:
  void AddByte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001B3u; }

  uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace outrider
