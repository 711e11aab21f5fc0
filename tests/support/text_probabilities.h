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

// The probability that a token drafted from q is accepted: the sum of min(p, q).
// REQUIRES: sizes are equal.
double AcceptanceOf(std::span<const float> p, std::span<const float> q);

}  // namespace outrider::testing
