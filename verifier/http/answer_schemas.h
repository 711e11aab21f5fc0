// JSON Schemas of what the HTTP front answers, for openapi.json. They are written by hand beside
// the code that makes the answers; Clients.openapi holds both together.
//
// Thread: any.
#pragma once

#include "verifier/http/json_text.h"
#include "verifier/http/routes.h"

namespace outrider {

// By name, "Error" among them.
Json AnswerSchemas();
// The one of a route whose answer is JSON; of a stream's events there is none.
const char* AnswerSchemaOf(RouteKind kind);

}  // namespace outrider
