// The page that people look at: one file of HTML with its script and its style, compiled in. It
// asks for status.json beside it once a second.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

// The file verifier/status/status.html as it was built in.
std::string_view StatusPageHtml();

// What the page may do: run its own script and style, by their digests, and ask where it came from.
// Nothing from elsewhere, in no frame, and no text may become markup.
std::string ContentSecurityPolicy(std::string_view html);

}  // namespace outrider
