// The probabilities that a model gives to each next token of a text.
#pragma once

#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/model/model.h"

namespace outrider::testing {

// [tokens][vocab]: of the token after each one. Temperature 0 takes those of 1. Aborts the program
// if the model fails.
std::vector<std::vector<float>> TextProbabilities(Model& model, std::span<const TokenId> tokens,
                                                  double temperature);

}  // namespace outrider::testing
