// Tokens that a proposer without a model puts forward, as a draft that the rules verify.
//
// The token that follows each prefix is a function of that prefix: its draft distribution is the
// point mass on it, written as a DraftDistribution of one entry of weight kDraftWeightTotal. Such a
// draft is lossless under every rule for a single sequence. Several continuations of one prefix are
// not: the rules take a node's draws for independent draws from one distribution, and a point mass
// draws the same token each time.
//
// The tokens must not depend on the coins that verify them. Text of the session that precedes the
// round does not; suffix_store.h says what that means for texts of other requests.
#pragma once

#include <span>

#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// A single sequence that passes Validate for Sequences(1, >= tokens.size()): with its
// distributions for kSampled, without any for the other kinds.
DraftTree ToDraft(std::span<const TokenId> tokens, DraftKind kind);

}  // namespace outrider
