// Passes of every kind, by which a model on several ranks is compared with one on one.
#pragma once

#include <vector>

#include "common/model/model.h"
#include "tests/common/model/model_testing.h"

namespace outrider {

TokenId LargestOf(const std::vector<float>& row);

// The logits of a prompt, of decoding, of drafts as trees of which a path is kept, of a fork in the
// middle of a page, and of two sequences in a pass.
Rows Story(Model& model);

// Fails the test unless each row is within `tolerance` of the expected one, relative to that one's
// largest logit.
void ExpectClose(const Rows& rows, const Rows& expected, double tolerance);

}  // namespace outrider
