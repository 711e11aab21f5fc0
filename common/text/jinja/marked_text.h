// A string of a chat template's rendering that knows which of its bytes came from the request. The
// tokenizer may find special tokens only in the template's own bytes (docs/security.md), so every
// operation that makes strings from others keeps the marks.
//
// Thread: any for a const object.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/text_span.h"

namespace outrider::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  // `from_request`: all of the text came from the request.
  explicit MarkedText(std::string text, bool from_request = false);

  const std::string& text() const { return text_; }
  size_t size() const { return text_.size(); }
  bool empty() const { return text_.empty(); }
  bool HasRequestText() const { return !from_request_.empty(); }
  // What came from the request: ascending, not empty, never adjacent.
  const std::vector<TextSpan>& from_request() const { return from_request_; }

  void Append(std::string_view text, bool from_request = false);
  void Append(const MarkedText& other) { Append(other, {0, other.size()}); }
  // Appends a part of `other`. Time: the bytes, and the logarithm of the marks before them.
  void Append(const MarkedText& other, TextSpan bytes);
  MarkedText Slice(TextSpan bytes) const;
  // Calls visit(part, from_request) for parts of one origin, in order.
  template <class Visit>
  void ForEachPart(Visit visit) const {
    const std::string_view whole = text_;
    size_t pos = 0;
    for (const TextSpan& marked : from_request_) {
      if (pos < marked.begin) visit(whole.substr(pos, marked.begin - pos), false);
      visit(whole.substr(marked.begin, marked.end - marked.begin), true);
      pos = marked.end;
    }
    if (pos < whole.size()) visit(whole.substr(pos), false);
  }

 private:
  void Mark(TextSpan bytes);

  std::string text_;
  std::vector<TextSpan> from_request_;
};

}  // namespace outrider::jinja
