// Converts JSON of a request to a value for a chat template.
//
// Thread: any.
#pragma once

#include "common/base/status.h"
#include "common/json/json.h"
#include "common/text/jinja/value.h"

namespace outrider {

// Marks all strings, including member names, as the request's. Members keep the order in which
// `json` iterates. With JsonLimits::exact_text integers are exact, whatever their size.
// kInvalidArgument: beyond jinja::kMaxExtent.
Result<jinja::Value> TemplateValueOf(const JsonValue& json);

}  // namespace outrider
