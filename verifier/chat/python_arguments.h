// Converts the arguments of a Python call to JSON.
//
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider {

// `arguments` is the text between ( and ): keyword arguments whose values are literals (numbers,
// strings, True, False, None, lists, tuples, dictionaries with string keys; JSON's true, false and
// null, too). Returns them as a JSON object, {"a": 1}, or nullopt for anything else, for a repeated
// keyword, and beyond 32 levels of nesting.
std::optional<std::string> JsonOfPythonArguments(std::string_view arguments);

}  // namespace outrider
