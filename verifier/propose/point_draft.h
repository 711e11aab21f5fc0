// Makes a draft that the rules can verify from the tokens of a proposer without a model.
//
// The token after each prefix is a function of that prefix, so its draft distribution is the point
// mass on it: a DraftDistribution with one entry of weight kDraftWeightTotal. Such a draft is
// lossless under every rule for a single sequence. Several continuations of one prefix are not,
// because the rules assume that a node's children are independent samples from one distribution,
// and a point mass gives the same token each time.
//
// The tokens must not depend on the random numbers that verify them. The session's text before the
// round does not; suffix_store.h says what this means for texts of other requests.
#pragma once

#include <span>

#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// A single sequence that passes Validate for Sequences(1, >= tokens.size()), with its distributions
// for kSampled and without any for the other kinds.
DraftTree ToDraft(std::span<const TokenId> tokens, DraftKind kind);

}  // namespace outrider
