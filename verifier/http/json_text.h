// The JSON type of answers, and its text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace outrider {

// Members keep the order in which they were added.
using Json = nlohmann::ordered_json;

// Invalid UTF-8 becomes U+FFFD.
std::string Dump(const Json& json);

}  // namespace outrider
