// What a sequence's round is decided by.
//
// Thread: the engine thread.
#pragma once

#include "common/rules/round_batch.h"
#include "verifier/engine/session.h"

namespace outrider {

// Of the round under way.
RoundSpec RoundSpecOf(const Session& session);

// Whether the round under way has a draft that a sampling rule verifies against its draft
// distributions.
bool IsSampledRound(const Session& session);

}  // namespace outrider
