#include "drafter/propose/head_learner.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace outrider {

void HeadLearner::OnPass(double seconds) {
  if (state_.has_value()) state_->OnPass(seconds);
}

void HeadLearner::OnVerdict(HeldSession& held, const SessionVerdict& verdict, Time now) {
  const DraftSession& session = held.mirror->session;
  if (!state_.has_value() || verdict.round != session.round()) return;
  const bool is_node = verdict.node >= 0 && verdict.node <= session.draft().size();
  if (held.decided.has_value() && is_node) {
    const int tokens = session.draft().depth(verdict.node) + static_cast<int>(verdict.next.size());
    state_->OnRound(tokens, Seconds(now - *held.decided));
  }
  held.decided = now;
  const auto nodes =
      std::min(verdict.acceptance.size(), static_cast<size_t>(session.draft().size()));
  for (size_t i = 0; i < nodes; ++i) {
    const float predicted = session.predicted(static_cast<int>(i) + 1);
    if (!(predicted >= 0.f)) continue;  // none, or of a broken hidden state
    state_->Learn(predicted,
                  static_cast<float>(static_cast<uint8_t>(verdict.acceptance[i])) / 255.f);
  }
  if (nodes > 0) observers_->Notify(&DraftObserver::OnHead, state_->bias(), state_->threshold());
}

}  // namespace outrider
