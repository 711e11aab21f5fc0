// Somebody else's text in a message of ours.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outrider {

// `text` as a message may show it: control characters replaced by '?', cut to `longest` bytes.
std::string Printable(std::string_view text, size_t longest = 200);

}  // namespace outrider
