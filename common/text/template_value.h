// Converts JSON of a request to a value for a chat template.
//
// Thread: any.
#pragma once

#include "common/base/status.h"
#include "common/json/json.h"
#include "common/text/jinja/value.h"

namespace outrider {

// Marks all strings, including member names, as the request's. Members keep the order in which
// `json` iterates (JsonLimits::text_order). kInvalidArgument: an integer beyond 64 bits.
Result<jinja::Value> TemplateValueOf(const JsonValue& json);

}  // namespace outrider
