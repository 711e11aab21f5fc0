// Checks single fields of config.json. A null counts as absent, as in Transformers. Errors are
// those of JsonValue, and kUnimplemented for an unsupported value.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/json/json.h"

namespace outrider {

constexpr int kMaxPositions = 1 << 24;  // of a context or a window: generous for any model

// Reads a required number above 0 and below `limit`.
Status ReadPositive(const JsonValue& field, double limit, float* out);
// Rejects an option that is switched on.
Status MustBeOff(const JsonValue& field);
// Rejects any other text or number; the field may be absent.
Status MustBe(const JsonValue& field, std::string_view text);
Status MustBe(const JsonValue& field, double number);

}  // namespace outrider
