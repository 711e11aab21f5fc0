#include "tests/support/text_probabilities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/check.h"

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
    const double most = *std::max_element(logits, logits + vocab);
    std::vector<double> p(vocab);
    for (size_t t = 0; t < vocab; ++t) {
      p[t] = std::exp((logits[t] - most) / (temperature > 0 ? temperature : 1));
    }
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    std::vector<float>& row = all.emplace_back();
    for (const double x : p) row.push_back(static_cast<float>(x / sum));
  }
  model.Release(sequence);
  return all;
}

}  // namespace outrider::testing
