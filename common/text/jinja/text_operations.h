// Operations of Python's str methods on one text, for methods and filters alike. Unchanged parts
// keep their marks; a text whose characters change is marked as a whole if any of it was.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/text/jinja/marked_text.h"

namespace outrider::jinja {

enum class Side { kLeft, kRight, kBoth };

// Removes characters of `chars` (nullopt: white space) at its ends.
MarkedText Strip(const MarkedText& text, std::optional<std::string_view> chars, Side side);
// str.split and str.rsplit: splits at runs of white space, at most `max_splits` times (negative:
// any number), from `side`, kLeft or kRight.
std::vector<MarkedText> SplitAtSpace(const MarkedText& text, int64_t max_splits, Side side);
// The same at `separator`. REQUIRES: it is not empty.
std::vector<MarkedText> SplitAt(const MarkedText& text, std::string_view separator,
                                int64_t max_splits, Side side);
// Occurrences of `part` in `text`, without overlaps; an empty one is around every character.
size_t CountOf(std::string_view text, std::string_view part);
size_t CountSpaces(std::string_view text);
// `max_count`: replacements; negative: any number. An empty `from` is found around every character.
size_t BytesAfterReplace(const MarkedText& text, std::string_view from, const MarkedText& to,
                         int64_t max_count);
MarkedText Replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   int64_t max_count);
// `text` changed to `changed`.
MarkedText Changed(const MarkedText& text, std::string changed);

}  // namespace outrider::jinja
