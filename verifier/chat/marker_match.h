// Finds out, byte by byte, which of several markers comes next.
//
// Owner: one parser. Thread: not synchronised.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace outrider {

class MarkerMatch {
 public:
  static constexpr int kNone = -1, kPart = -2;

  // Returns the index of the marker that this byte completes, kPart if later bytes may complete
  // one, or kNone if none can match. After a marker and after kNone, matching starts over.
  // REQUIRES: no marker is a prefix of another, and `markers` are the same until one is complete.
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
  // Whether the bytes so far are a prefix of a marker.
  bool has_begun() const { return !text_.empty(); }

 private:
  std::string text_;
};

}  // namespace outrider
