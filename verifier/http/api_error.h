// Errors in OpenAI's format: an HTTP code, and a body {"error": {message, type, param, code}}.
#pragma once

#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "verifier/http/server.h"

namespace outrider {

// A code that no server sends: the client left before the answer (as nginx counts it).
inline constexpr int kClientGone = 499;

// The only place that maps our codes to HTTP's.
int HttpCodeOf(const Status& status);

// The body's JSON. `param` is the field at the start of the message, by the client's name for it.
std::string ErrorJson(const Status& status);
// For errors of HTTP itself (404, 405, 408, 413, ..).
std::string ErrorJson(int http_code, const std::string& message);

// The whole answer. `after`: when to try again, if that may help (Retry-After).
HttpReply ErrorReply(const Status& status, std::optional<Duration> after = std::nullopt,
                     HttpHeaders headers = {});

}  // namespace outrider
