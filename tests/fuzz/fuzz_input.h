// The bytes of one fuzz input, read piece by piece. Reads beyond the end give zeros, so that every
// input is a complete program in a target's small language.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace outrider::fuzz {

// What must hold whatever the input; the fuzzer reports the abort with the input that caused it.
inline void Require(bool condition) {
  if (!condition) std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  // A number in [0, bound). REQUIRES: 0 < bound <= 256.
  int Below(int bound) { return Byte() % bound; }
  // A length in one byte (255: in two more, low byte first), then as many bytes (or those that are
  // left).
  std::string_view Block() {
    size_t length = Byte();
    if (length == 255) {
      length = Byte();
      length += size_t{256} * Byte();
    }
    return Take(length);
  }
  // The bytes up to the first zero byte, which is dropped, or all that are left.
  std::string_view UpToZero() {
    const auto length = static_cast<size_t>(std::find(data_, data_ + size_, uint8_t{0}) - data_);
    const std::string_view taken = Take(length);
    Byte();
    return taken;
  }
  std::string_view Rest() { return Take(size_); }

 private:
  std::string_view Take(size_t count) {
    const std::string_view taken(reinterpret_cast<const char*>(data_), std::min(count, size_));
    data_ += taken.size();
    size_ -= taken.size();
    return taken;
  }

  const uint8_t* data_;
  size_t size_;
};

}  // namespace outrider::fuzz
