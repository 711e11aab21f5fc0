// The arguments of a call in Python as JSON.
//
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider {

// `arguments`: what stands between ( and ), keyword arguments whose values are literals: numbers,
// strings, True, False, None, lists, tuples and dictionaries with strings for keys; JSON's true,
// false and null too. The JSON object of them, {"a": 1}; nullopt for anything else, for a keyword
// that comes twice, and for more than 32 levels.
std::optional<std::string> JsonOfPythonArguments(std::string_view arguments);

}  // namespace outrider
