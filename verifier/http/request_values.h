// A request's body, and those of its values that JsonValue does not read: lists with limits. A
// member that is null counts as absent, as clients of OpenAI's API mean it: `out` then keeps what
// it holds. Errors name the field, which becomes the answer's "param".
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

// Levels of arrays and objects in a body: more than other JSON has, for the schemas of tools.
inline constexpr size_t kMaxBodyDepth = 32;

// Reads a body so that none of the front's 8 MiB takes more than 96 MiB of memory: of a limited
// number of values, none of them given twice.
Result<JsonValue> ParseBody(std::string_view text);

// An array of at most `max_items`.
Status ReadInts(const JsonValue& field, int max_items, std::vector<int>* out);
// One string, or an array of at most `max_items`.
Status ReadStrings(const JsonValue& field, int max_items, std::vector<std::string>* out);
// An object from token ids to numbers, with at most `max_items`. An id is written in one way
// ("5", not "05"), so that no two members mean one token.
Status ReadBias(const JsonValue& field, int max_items, std::vector<std::pair<TokenId, float>>* out);

}  // namespace outrider
