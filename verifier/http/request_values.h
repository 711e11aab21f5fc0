// Parses a request's body, and values that JsonValue does not read: lists with limits. A null
// member counts as absent, as clients of OpenAI's API mean it: `out` then keeps its value. Errors
// name the field, which becomes the answer's "param".
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/json/json.h"

namespace outrider {

// Nesting limit of a body: higher than for other JSON, for the schemas of tools.
inline constexpr size_t kMaxBodyDepth = 32;

// Parses a body with a limited number of values and no repeated member, so that none of the front's
// 8 MiB takes more than 96 MiB of memory.
Result<JsonValue> ParseBody(std::string_view text);

// An array of at most `max_items`.
Status ReadInts(const JsonValue& field, int max_items, std::vector<int>* out);
// One string, or an array of at most `max_items`.
Status ReadStrings(const JsonValue& field, int max_items, std::vector<std::string>* out);
// An object from token ids to numbers, with at most `max_items`. An id has one spelling ("5", not
// "05"), so that no two members name the same token.
Status ReadBias(const JsonValue& field, int max_items, std::vector<std::pair<TokenId, float>>* out);

}  // namespace outrider
