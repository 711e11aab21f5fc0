// Parses the fields of a chat's body that become its prompt.
//
// Thread: any.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/json/json.h"
#include "common/text/chat_template.h"
#include "verifier/http/api_request.h"

namespace outrider {

// `messages`: at least one. Errors name the message.
Result<std::vector<ChatMessage>> MessagesOf(const JsonValue& value, const ApiModel& model);

// The arguments for rendering the template.
Result<ChatOptions> ChatOptionsOf(const JsonValue& body, const ApiModel& model);

}  // namespace outrider
