// Makes text from outside safe to show in our messages.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outrider {

// `text` with control characters replaced by '?', cut to `longest` bytes.
std::string Printable(std::string_view text, size_t longest = 200);

}  // namespace outrider
