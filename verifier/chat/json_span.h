// Where an object, an array or a string of JSON ends in a text that comes byte by byte. Only
// brackets and strings are looked at: what is malformed otherwise ends as well.
//
// Owner: one value. Thread: not synchronised.
#pragma once

namespace outrider {

class JsonSpan {
 public:
  // Whether the value is complete with this byte. REQUIRES: the first byte is {, [ or ".
  bool Ends(char c) {
    if (in_string_) {
      const bool closes = c == '"' && !escaped_;
      escaped_ = c == '\\' && !escaped_;
      in_string_ = !closes;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
    return depth_ == 0 && !in_string_;
  }

 private:
  int depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace outrider
