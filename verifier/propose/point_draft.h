// Tokens that a proposer without a model puts forward, as a draft that the rules verify.
//
// The token behind each prefix is a function of that prefix: its draft law is the point mass on it,
// written as a DraftLaw of one entry of weight kDraftLawTotal. Such a draft is exact under every
// rule for a single sequence. Several different continuations of one prefix are not: the rules take
// a node's draws for independent draws from one law, and a point mass draws the same token each
// time. So a sampled request gets one sequence; where drafts are compared with the target's own
// token (DraftKind kArgmax and kRace) any tree of distinct tokens is exact.
//
// The tokens must not depend on the coins that verify them. Text of the session in front of the
// round does not; suffix_store.h says what that means for texts of other requests.
#pragma once

#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"

namespace outrider {

// A single sequence that passes Validate for Sequences(1, >= tokens.size()): with its laws for
// kSampled, without any for the other kinds.
DraftTree ToDraft(std::span<const TokenId> tokens, DraftKind kind);

// Sequences that may share prefixes, as a tree of distinct tokens. REQUIRES: kind is not kSampled.
DraftTree ToDraft(std::span<const std::vector<TokenId>> sequences, DraftKind kind);

}  // namespace outrider
