#include "verifier/engine/prompt_logprobs.h"

#include <algorithm>
#include <cstddef>

#include "verifier/engine/logprobs.h"

namespace outrider {

int PromptRowsOfStep(int vocab_size, std::optional<double> others_step_seconds) {
  constexpr double kMostLogits = 2 << 20;
  // Cost of LogprobsOf, measured on a core at 2 GHz. A faster core delays others by less than
  // allowed.
  constexpr double kSecondsPerLogit = 1.5e-9;
  constexpr double kPartOfStep = 0.25;
  const double logits =
      others_step_seconds.has_value()
          ? std::min(kMostLogits, kPartOfStep * *others_step_seconds / kSecondsPerLogit)
          : kMostLogits;
  return std::max(1, static_cast<int>(logits / std::max(1, vocab_size)));
}

int PromptLogprobsLeft(const Session& session) {
  if (!session.request.prompt_logprobs.has_value() || session.round > 1) return 0;
  return session.prompt_tokens - 1 - static_cast<int>(session.prompt_logprobs.size());
}

void AddPromptRows(BatchEntry& entry) {
  const Session& session = *entry.session;
  if (PromptLogprobsLeft(session) == 0) return;
  // A row predicts the token after its own. Those from before a preemption are known.
  const int known = static_cast<int>(session.prompt_logprobs.size());
  for (int row = std::max(0, known - session.computed); row < entry.pending; ++row) {
    entry.logit_rows.push_back(row);
  }
}

void TakePromptRows(const BatchEntry& entry, std::span<const float> rows, int vocab_size,
                    int allowed) {
  Session& session = *entry.session;
  const auto vocab = static_cast<size_t>(vocab_size);
  for (size_t i = 0; i < entry.logit_rows.size(); ++i) {
    const auto next = static_cast<size_t>(session.computed + entry.logit_rows[i] + 1);
    session.prompt_logprobs.push_back(
        LogprobsOf(rows.subspan(i * vocab, vocab).first(static_cast<size_t>(allowed)),
                   session.tokens[next], *session.request.prompt_logprobs));
  }
}

}  // namespace outrider
