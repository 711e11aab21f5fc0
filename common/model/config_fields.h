// Checks of single fields of config.json. A null counts as absent, as in Transformers. Errors are
// those of JsonValue, and kUnimplemented for a value that is not supported.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/json/json.h"

namespace outrider {

constexpr int kMaxPositions = 1 << 24;  // of a context or a window: generous for any model

// A number above 0 and below `limit`, which must be there.
Status ReadPositive(const JsonValue& field, double limit, float* out);
// Refuses an option that is switched on.
Status MustBeOff(const JsonValue& field);
// Refuses any other text or number; absent is allowed.
Status MustBe(const JsonValue& field, std::string_view text);
Status MustBe(const JsonValue& field, double number);

}  // namespace outrider
