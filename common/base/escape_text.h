// Makes text from outside one line that a terminal and a log show as it is.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outrider {

// `text` as valid UTF-8, with control characters, separators of lines and what turns the direction
// of text as \uXXXX, and quotes and backslashes after a backslash. Bytes that are no UTF-8 become
// \ufffd. Of the result at most `longest` bytes, followed by "..." if that cuts it.
std::string EscapeText(std::string_view text, size_t longest);

}  // namespace outrider
