// Formats error messages.
#pragma once

#include <string>
#include <string_view>

#include "common/base/printable.h"
#include "common/base/status.h"

namespace outrider::jinja {

// Shortened and in quotes.
inline std::string Quoted(std::string_view text) { return "'" + Printable(text, 60) + "'"; }

// "line <n>: <message>"
inline Status SyntaxError(int line, const std::string& message) {
  return InvalidArgument("line " + std::to_string(line) + ": " + message);
}

}  // namespace outrider::jinja
