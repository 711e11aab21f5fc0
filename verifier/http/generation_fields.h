// Parses the fields that completions and chats share.
//
// Thread: any.
#pragma once

#include "common/base/status.h"
#include "common/json/json.h"
#include "verifier/engine/request.h"
#include "verifier/http/api_request.h"

namespace outrider {

// Checks the names of all fields, and reads those that both have into `request`, from which each
// prompt's request is made. Compiles no grammar.
Status ReadCommon(const JsonValue& body, const ApiModel& model, ApiRequest* api,
                  GenerationRequest* request);

// kNotFound if `model` names another model than the server's.
Status CheckModel(const JsonValue& body, const ApiModel& model);

// How a prompt's text is tokenized. As in vLLM, special tokens in it are recognised unless the body
// says otherwise.
Result<PromptTextOptions> PromptTextOf(const JsonValue& body);

}  // namespace outrider
