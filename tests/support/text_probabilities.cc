#include "tests/support/text_probabilities.h"

#include <algorithm>
#include <numeric>

#include "common/base/check.h"
#include "common/math/softmax.h"

namespace outrider::testing {

std::vector<std::vector<float>> TextProbabilities(Model& model, std::span<const TokenId> tokens,
                                                  double temperature) {
  const SequenceId sequence = model.NewSequence();
  std::vector<int32_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  const ForwardSequence share{.sequence = sequence, .tokens = tokens, .logit_rows = rows};
  ForwardOutput output;
  OUTRIDER_CHECK(model.Forward({&share, 1}, false, &output).ok());
  const auto vocab = static_cast<size_t>(model.config().vocab_size);
  std::vector<std::vector<float>> all;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const float* const logits = output.logits + i * vocab;
    Softmax(all.emplace_back(logits, logits + vocab),
            temperature > 0 ? static_cast<float>(temperature) : 1);
  }
  model.Release(sequence);
  return all;
}

double AcceptanceOf(std::span<const float> p, std::span<const float> q) {
  double sum = 0;
  for (size_t token = 0; token < p.size(); ++token) sum += std::min(p[token], q[token]);
  return sum;
}

}  // namespace outrider::testing
