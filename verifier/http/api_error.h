// Errors as OpenAI's API has them: an HTTP code, and a body {"error": {message, type, param,
// code}}.
#pragma once

#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "verifier/http/server.h"

namespace outrider {

// A code that no server sends: the client had gone before there was an answer (as nginx counts it).
inline constexpr int kClientGone = 499;

// The one place where our codes become HTTP's.
int HttpCodeOf(const Status& status);

// The body's JSON. `param` is the field that the message begins with, as the client calls it.
std::string ErrorJson(const Status& status);
// For what only HTTP knows (404, 405, 408, 413, ..).
std::string ErrorJson(int http_code, const std::string& message);

// The whole answer. `after`: when trying again may help (Retry-After).
HttpReply ErrorReply(const Status& status, std::optional<Duration> after = std::nullopt,
                     HttpHeaders headers = {});

}  // namespace outrider
