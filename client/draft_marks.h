// Marks the part of a text that was drafted by the small model and accepted by the large one.
#pragma once

#include <string>
#include <string_view>

namespace outrider {

enum class MarkStyle { kColour, kBrackets };

// `chunk` with its accepted part marked. `own` is the text of the chunk's tokens that were not
// drafted; they come last, so everything before it was accepted. If the chunk does not end in `own`
// (a character is incomplete, or a stop string cut the text), all of it counts as accepted.
std::string MarkAccepted(std::string_view chunk, std::string_view own, MarkStyle style);

}  // namespace outrider
