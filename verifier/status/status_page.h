// The status page: one file of HTML with its script and style, compiled in. It requests status.json
// from the same place once a second.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

// The file verifier/status/status.html as built in.
std::string_view StatusPageHtml();

// What the page may do: run its own script and style, by their digests, and connect to its own
// origin. Nothing from elsewhere, no frames, and no text may become markup.
std::string ContentSecurityPolicy(std::string_view html);

}  // namespace outrider
