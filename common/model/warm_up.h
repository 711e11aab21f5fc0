// Passes that nobody waits for, before the first request: a device loads its kernels, libraries
// choose their algorithms and working memory grows to what the largest batch takes. A device that
// lacks the memory for that is found at start, and no request's time holds it.
#pragma once

#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// Runs one pass of max_batch_tokens() tokens, then passes of fewer and fewer down to one, of a
// sequence that is released again; as far as positions and free pages go. Errors are Forward's.
Status WarmUp(Model* model);

}  // namespace outrider
