#include "common/text/jinja/marked_text.h"

#include <algorithm>

namespace outrider::jinja {

MarkedText::MarkedText(std::string text, bool from_request) : text_(std::move(text)) {
  if (from_request) Mark({0, text_.size()});
}

void MarkedText::Mark(TextSpan bytes) {
  if (bytes.begin == bytes.end) return;
  if (!from_request_.empty() && from_request_.back().end == bytes.begin) {
    from_request_.back().end = bytes.end;
  } else {
    from_request_.push_back(bytes);
  }
}

void MarkedText::Append(std::string_view text, bool from_request) {
  const size_t begin = text_.size();
  text_ += text;
  if (from_request) Mark({begin, text_.size()});
}

void MarkedText::Append(const MarkedText& other, TextSpan bytes) {
  const size_t base = text_.size();
  text_.append(other.text_, bytes.begin, bytes.end - bytes.begin);
  const auto& marks = other.from_request_;
  auto mark = std::upper_bound(marks.begin(), marks.end(), bytes.begin,
                               [](size_t pos, const TextSpan& range) { return pos < range.end; });
  for (; mark != marks.end() && mark->begin < bytes.end; ++mark) {
    Mark({base + std::max(mark->begin, bytes.begin) - bytes.begin,
          base + std::min(mark->end, bytes.end) - bytes.begin});
  }
}

MarkedText MarkedText::Slice(TextSpan bytes) const {
  MarkedText part;
  part.Append(*this, bytes);
  return part;
}

}  // namespace outrider::jinja
