// The JSON that answers are made of, and its text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace outrider {

// Members stay in the order in which they were added.
using Json = nlohmann::ordered_json;

// Bytes that are no UTF-8 become U+FFFD.
std::string Dump(const Json& json);

}  // namespace outrider
