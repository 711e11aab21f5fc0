#include "verifier/engine/speedup_observer.h"

#include <utility>

#include "verifier/engine/batch_entry.h"
#include "verifier/engine/session.h"

namespace outrider {

void SpeedupObserver::OnPreempted(const Session& session) { decoding_.erase(session.id); }

void SpeedupObserver::OnStepBegin(Time now) {
  if (was_idle_) step_began_ = now;
}

void SpeedupObserver::OnForward(const ForwardPass& pass) {
  step_ = {.decoding = static_cast<int>(decoding_.size())};
  for (const auto& [id, decoding] : decoding_) {
    step_.drafts = step_.drafts || decoding.session->drafting.holds_round();
  }
  for (const BatchEntry& entry : pass.batch) {
    (decoding_.contains(entry.session->id) ? step_.scored : step_.prompt) += entry.rows();
    step_.drafts = step_.drafts || entry.rows() > entry.pending;
  }
}

void SpeedupObserver::OnRound(const Session& session, const Chunk& chunk, Time /*now*/) {
  EndedRound& round = ended_rounds_.emplace_back();
  round.session = &session;
  if (const auto it = decoding_.find(session.id); it != decoding_.end()) {
    round.decoding = it->second;
  }
  round.tokens = static_cast<int>(chunk.tokens.size());
  round.asked = chunk.drafted > 0 || session.drafting.was_asked();
}

void SpeedupObserver::OnEnded(const Session& session, const Status& /*status*/, Time /*now*/) {
  decoding_.erase(session.id);
  for (EndedRound& round : ended_rounds_) {
    if (round.session == &session) round.session = nullptr;
  }
}

void SpeedupObserver::OnStepEnd(const EngineLevels& /*levels*/,
                                std::optional<double> forward_seconds, Time now) {
  was_idle_ = !forward_seconds.has_value();
  if (was_idle_) return;
  plain_time_.OnStep(step_, Seconds(now - std::exchange(step_began_, now)));
  for (const EndedRound& round : ended_rounds_) {
    if (round.decoding.has_value()) {
      const double seconds = Seconds(now - round.decoding->since);
      metrics_.round_seconds_total.Increment(seconds);
      metrics_.round_seconds_if_plain_total.Increment(plain_time_.Of(
          {.seconds = seconds,
           .prompt_seconds = plain_time_.prompt_seconds() - round.decoding->prompt_seconds,
           .tokens = round.tokens,
           .asked = round.asked}));
    }
    if (round.session != nullptr) {
      decoding_[round.session->id] = {
          .session = round.session, .since = now, .prompt_seconds = plain_time_.prompt_seconds()};
    }
  }
  ended_rounds_.clear();
}

}  // namespace outrider
