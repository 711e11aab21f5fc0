// JSON of a request as a value that a chat template can use.
//
// Thread: any.
#pragma once

#include "common/base/status.h"
#include "common/json/json.h"
#include "common/text/jinja/value.h"

namespace outrider {

// All strings, names of members too, are marked as the request's. Members keep the order in which
// `json` walks them (JsonLimits::text_order). kInvalidArgument: an integer beyond 64 bits.
Result<jinja::Value> TemplateValueOf(const JsonValue& json);

}  // namespace outrider
