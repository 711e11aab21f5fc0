// The inputs by which a sequence's round is decided.
//
// Thread: the engine thread.
#pragma once

#include "common/rules/round_batch.h"
#include "verifier/engine/session.h"

namespace outrider {

// What decides the round under way.
RoundSpec RoundSpecOf(const Session& session);

// Whether the round under way verifies a draft by a sampling rule, against its draft distributions.
bool IsSampledRound(const Session& session);

}  // namespace outrider
