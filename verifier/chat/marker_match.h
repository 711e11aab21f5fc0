// Finds out, byte by byte, which of some texts comes next.
//
// Owner: one. Thread: not synchronised.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace outrider {

class MarkerMatch {
 public:
  static constexpr int kNone = -1, kPart = -2;

  // The index of the marker that is complete with this byte; kPart: one may be with later bytes;
  // kNone: none can be. After a marker and after kNone the next byte is a first one.
  // REQUIRES: none of `markers` begins another one, and they are the same until one is complete.
  int Read(char c, std::initializer_list<std::string_view> markers) {
    text_ += c;
    int index = 0, found = kNone;
    for (const std::string_view marker : markers) {
      if (marker == text_) found = index;
      if (found == kNone && marker.starts_with(text_)) found = kPart;
      ++index;
    }
    if (found != kPart) text_.clear();
    return found;
  }
  // Whether the bytes so far are the first ones of a marker.
  bool has_begun() const { return !text_.empty(); }

 private:
  std::string text_;
};

}  // namespace outrider
