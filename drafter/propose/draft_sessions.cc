#include "drafter/propose/draft_sessions.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "common/base/log.h"

namespace outrider {

int SessionShare(int max_sessions, int verifiers) {
  return std::max(max_sessions / std::max(verifiers, 1), 1);
}

int SessionLimitOf(const std::vector<int>& others, int max_sessions, int share) {
  int free = max_sessions, room = max_sessions;  // `room`: also what would give way
  for (const int held : others) {
    free -= held;
    room -= std::min(held, share);
  }
  return std::min(std::max(free, share), room);
}

DraftSessions::DraftSessions(int max_sessions, Model* model, DraftObservers* observers,
                             bool keep_prefixes)
    : max_sessions_(max_sessions),
      model_(model),
      observers_(observers),
      prefixes_(keep_prefixes ? std::make_unique<PrefixCache>(model) : nullptr),
      pages_(model, prefixes_.get()) {}

void DraftSessions::Connect(uint64_t id, VerifierConnection connection) {
  connections_.emplace(id, std::move(connection));
}

void DraftSessions::Disconnect(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  VerifierConnection& connection = found->second;
  while (!connection.sessions.empty()) Close(connection, connection.sessions.begin()->first);
  connections_.erase(found);
}

VerifierConnection* DraftSessions::Find(uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

DrafterLoad DraftSessions::load() const {
  return {.sessions = size_,
          .free_pages = static_cast<int>(pages_.free_pages()),
          .session_limit = max_sessions_};
}

int DraftSessions::Part() const {
  const auto wanted = std::count_if(connections_.begin(), connections_.end(),
                                    [](const auto& entry) { return entry.second.wanted; });
  return SessionShare(max_sessions_, static_cast<int>(wanted));
}

int DraftSessions::SessionLimit(const VerifierConnection& connection) const {
  if (!connection.wanted) return 0;
  std::vector<int> others;
  for (const auto& [id, other] : connections_) {
    if (&other != &connection) others.push_back(other.held());
  }
  return SessionLimitOf(others, max_sessions_, Part());
}

Status DraftSessions::MakeRoom(const VerifierConnection& connection) {
  if (size_ < max_sessions_) return Status();
  const auto held = [](const VerifierConnection& c) { return int64_t{c.held()}; };
  if (connection.held() < Part() && GiveWay(connection, Part(), held)) return Status();
  return ResourceExhausted(std::to_string(size_) + " sessions are held, the limit");
}

HeldSession& DraftSessions::Add(VerifierConnection& connection, uint64_t id, DraftSession session) {
  HeldSession& held = connection.sessions[id];
  held.connection = &connection;
  held.id = id;
  // The last token is always computed, because its logits are needed.
  const SequenceId trunk =
      prefixes_ != nullptr ? prefixes_->Fork(session.tokens().first(session.tokens().size() - 1))
                           : model_->NewSequence();
  if (prefixes_ != nullptr) held.prefix_tokens = model_->length(trunk);
  session.MarkFed(model_->length(trunk));
  held.mirror = std::make_unique<Mirror>(std::move(session), model_, &pages_, trunk);
  held.opened = opened_++;
  ++size_;
  return held;
}

void DraftSessions::SharePrefix(HeldSession& held) {
  if (prefixes_ == nullptr || std::exchange(held.shares_prefix, true)) return;
  const Mirror& mirror = *held.mirror;
  // Without the last token, which is fed again if a verdict adds none: a shared page is copied
  // before it is written to.
  const int whole = (mirror.session.length() - 1) / model_->page_tokens() * model_->page_tokens();
  if (whole == 0) return;
  const Result<SequenceId> fork = model_->Fork(mirror.kv.sequence(DraftTree::kRoot), whole);
  if (!fork.ok()) return;
  prefixes_->Insert(mirror.session.tokens().first(static_cast<size_t>(whole)), *fork);
}

void DraftSessions::StampPlan(HeldSession& held, Time now) {
  held.plan_order = plans_++;
  held.planned = now;
}

Status DraftSessions::SecurePages(HeldSession& held) {
  const DraftSession& session = held.mirror->session;
  const auto secure = [&] { return held.mirror->kv.Secure(session.length(), session.shape()); };
  Status secured = secure();
  if (secured.code() == Code::kOutOfRange) return secured;
  // Guesses give way to plans.
  for (const auto drop : {&SessionLookahead::DropUnsent, &SessionLookahead::DropPages}) {
    if (secured.ok()) return secured;
    for (auto& [id, connection] : connections_) {
      for (auto& [session_id, guessed] : connection.sessions) std::invoke(drop, guessed.ahead);
    }
    secured = secure();
  }
  const VerifierConnection& asking = *held.connection;
  while (!secured.ok() && GiveWay(asking, asking.tokens(), &VerifierConnection::tokens)) {
    secured = secure();
  }
  return secured;
}

template <class Amount>
bool DraftSessions::GiveWay(const VerifierConnection& asking, int64_t fair, Amount amount) {
  VerifierConnection* most = nullptr;
  for (auto& [id, connection] : connections_) {
    if (&connection == &asking || std::invoke(amount, connection) <= fair) continue;
    if (most == nullptr || std::invoke(amount, connection) > std::invoke(amount, *most)) {
      most = &connection;
    }
  }
  if (most == nullptr) return false;
  const auto newest = std::max_element(
      most->sessions.begin(), most->sessions.end(),
      [](const auto& a, const auto& b) { return a.second.opened < b.second.opened; });
  const DraftSession& session = newest->second.mirror->session;
  if (session.drafting()) {
    Refuse(*most, newest->first, session.round(), ResourceExhausted("another verifier's turn"));
  } else {
    // Its plan was answered and may already be decided; the next one will be refused.
    Discard(*most, newest->first);
  }
  return true;
}

void DraftSessions::Refuse(VerifierConnection& connection, uint64_t id, uint32_t round,
                           const Status& why) {
  Log(LogLevel::kWarning, "session refused",
      {{"session", id}, {"round", round}, {"reason", why.ToString()}});
  const auto held = connection.sessions.find(id);
  if (held != connection.sessions.end()) {
    observers_->Notify(&DraftObserver::OnRefused, held->second, why);
  }
  Discard(connection, id);
  connection.outbox.push_back({.session = id, .round = round, .chunk = {}});
}

void DraftSessions::Close(VerifierConnection& connection, uint64_t id) {
  const auto found = connection.sessions.find(id);
  if (found != connection.sessions.end() && prefixes_ != nullptr) {
    HeldSession& held = found->second;
    held.ahead = {};  // it points into the mirror
    const DraftSession& session = held.mirror->session;
    prefixes_->Insert(session.tokens().first(static_cast<size_t>(session.kv_length())),
                      held.mirror->kv.TakeTrunk());
  }
  Discard(connection, id);
}

void DraftSessions::Discard(VerifierConnection& connection, uint64_t id) {
  const auto found = connection.sessions.find(id);
  if (found == connection.sessions.end()) return;
  observers_->Notify(&DraftObserver::OnClosed, found->second);
  connection.sessions.erase(found);
  --size_;
}

}  // namespace outrider
