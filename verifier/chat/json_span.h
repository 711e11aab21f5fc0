// Finds the end of a JSON object, array or string in text that arrives byte by byte. It only looks
// at brackets and strings, so malformed values end, too.
//
// Owner: one value. Thread: not synchronised.
#pragma once

namespace outrider {

class JsonSpan {
 public:
  // Returns whether this byte completes the value. REQUIRES: the first byte is {, [ or ".
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
