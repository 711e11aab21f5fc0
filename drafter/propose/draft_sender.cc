#include "drafter/propose/draft_sender.h"

#include <utility>

namespace outrider {

void DraftSender::QueueDraft(HeldSession& held) {
  DraftSession& session = held.mirror->session;
  const Time now = clock_->Now();
  const double seconds = Seconds(now - held.planned);
  if (!session.drafting()) OnComplete(held, seconds, now);
  held.connection->outbox.push_back({.session = held.id,
                                     .round = session.round(),
                                     .chunk = session.TakeChunk(),
                                     .seconds = seconds});
}

void DraftSender::QueueEarlyDraft(HeldSession& held, SessionLookahead::Guess* guess) {
  std::optional<DraftPart> part = held.ahead.TakeEarly(guess);
  if (!part.has_value()) return;
  part->session = held.id;
  held.connection->outbox.push_back(*std::move(part));
}

void DraftSender::MarkSent(HeldSession& held) {
  held.mirror->session.TakeChunk();
  OnComplete(held, 0, clock_->Now());
}

void DraftSender::OnComplete(HeldSession& held, double seconds, Time now) {
  lookahead_->OnDraftComplete(held, now);
  observers_->Notify(&DraftObserver::OnDraftSent, held, seconds, now);
}

void DraftSender::Flush() {
  DrafterLoad now = sessions_->load();
  if (observed_ != now) observers_->Notify(&DraftObserver::OnLoad, now);
  observed_ = now;
  for (auto& [id, connection] : sessions_->connections()) {
    if (!connection.outbox.empty()) {
      connection.link->SendDrafts(std::exchange(connection.outbox, {}));
    }
    // The number of pages changes at every step; verifiers need it when sessions come and go.
    now.session_limit = sessions_->SessionLimit(connection);
    if (!connection.told.has_value() || connection.told->sessions != now.sessions ||
        connection.told->session_limit != now.session_limit) {
      connection.link->SendLoad(now);
      connection.told = now;
    }
    if (!connection.wanted && connection.sessions.empty()) connection.link->Close();
  }
}

}  // namespace outrider
