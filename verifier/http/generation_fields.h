// The fields that the bodies of completions and chats share.
//
// Thread: any.
#pragma once

#include "common/base/status.h"
#include "common/json/json.h"
#include "verifier/engine/request.h"
#include "verifier/http/api_request.h"

namespace outrider {

// Checks the names of all fields, and reads those that both have. `request`: becomes what each
// prompt is asked with. Compiles no grammar.
Status ReadCommon(const JsonValue& body, const ApiModel& model, ApiRequest* api,
                  GenerationRequest* request);

// kNotFound where `model` names another one than the server's.
Status CheckModel(const JsonValue& body, const ApiModel& model);

// How a prompt's text becomes tokens. As in vLLM, special tokens are found in it unless the body
// says otherwise.
Result<PromptTextOptions> PromptTextOf(const JsonValue& body);

}  // namespace outrider
