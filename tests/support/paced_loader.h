// Gives a service a model whose passes sleep for a given time instead of computing
// (simulate/fleet/paced_model.h), so that many services share a few cores and still take the time
// of theirs. The service needs a checkpoint's directory all the same, for its tokenizer.
//
// Thread: main.
#pragma once

#include "common/service/served_model.h"

namespace outrider::testing {

// The loader for `paced_verifier` and `paced_drafter`. The environment variable OUTRIDER_PACED has
// the times of a pass in milliseconds, and a draft model's acceptance: "40,0.2" for V(r) = 40 + 0.2
// (r - 1), "6,0.1,0.7" for a draft model of which 70 % of the draft tokens are accepted.
// kInvalidArgument: it is not set or not of this form.
ModelLoader PacedLoader();

}  // namespace outrider::testing
