// JSON Schemas of the HTTP front's answers, for openapi.json. They are written by hand beside the
// code that makes the answers; Clients.openapi checks that they agree.
//
// Thread: any.
#pragma once

#include "verifier/http/json_text.h"
#include "verifier/http/routes.h"

namespace outrider {

// By name, including "Error".
Json AnswerSchemas();
// The schema of a route with JSON answers; the events of streams have none.
const char* AnswerSchemaOf(RouteKind kind);

}  // namespace outrider
