// The connections to verifiers, and their sessions with the pages that they hold.
//
// The KV of texts is kept, in whole pages, for sessions that begin the same (the next turn of a
// chat, a system prompt), until the pages are needed.
//
// Verifiers share the drafter fairly. Each is guaranteed an equal share of the sessions and can use
// what is free beyond that. A session of a verifier that holds more gives way to one of a verifier
// that holds less than its share; the same applies to KV pages.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "drafter/propose/draft_kv.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/propose/draft_session.h"
#include "drafter/propose/held_session.h"

namespace outrider {

// The equal share that each of `verifiers` may claim of a drafter's sessions: at least one.
int SessionShare(int max_sessions, int verifiers);
// The most sessions that a verifier may hold while the others hold `others`: what they leave free,
// and its share in any case, but no more than fit beside those of the others that do not give way.
// That may be 0, as verifiers that are no longer wanted have no share but keep sessions.
int SessionLimitOf(const std::vector<int>& others, int max_sessions, int share);

class DraftSessions {
 public:
  // `max_sessions`: over all verifiers, at least 1. `model` and `observers` must outlive it.
  // Without `keep_prefixes` no KV is kept.
  DraftSessions(int max_sessions, Model* model, DraftObservers* observers,
                bool keep_prefixes = false);

  // Adds a connection, unless its id is already connected.
  void Connect(uint64_t id, VerifierConnection connection);
  // Closes the connection's sessions and forgets it.
  void Disconnect(uint64_t id);
  // nullptr: not connected.
  VerifierConnection* Find(uint64_t id);
  std::map<uint64_t, VerifierConnection>& connections() { return connections_; }

  // Sessions of all verifiers.
  int size() const { return size_; }
  PageBudget& pages() { return pages_; }
  // The drafter's own view; a verifier is sent its own session_limit instead.
  DrafterLoad load() const;
  // The most sessions that the verifier may hold at present.
  int SessionLimit(const VerifierConnection& connection) const;

  // Makes room for one more session of this verifier, if necessary by closing one of another.
  // kResourceExhausted: there is none.
  Status MakeRoom(const VerifierConnection& connection);
  // Adds the session under `id`. REQUIRES: the connection has no session of that id.
  HeldSession& Add(VerifierConnection& connection, uint64_t id, DraftSession session);
  // All of the session's tokens have KV, which others may share from now on.
  void SharePrefix(HeldSession& held);
  // A plan of the session has arrived.
  void StampPlan(HeldSession& held, Time now);
  // Secures pages for the session's plan, if necessary by dropping guesses and then sessions of
  // verifiers with more tokens. kResourceExhausted: there are none. kOutOfRange: that would not be
  // enough, and nothing is dropped.
  Status SecurePages(HeldSession& held);

  // Answers a plan with an empty draft, and forgets the session if it is held.
  void Refuse(VerifierConnection& connection, uint64_t id, uint32_t round, const Status& why);
  // Forgets the session and keeps the KV of its text. Unknown ids are ignored.
  void Close(VerifierConnection& connection, uint64_t id);
  // The same without keeping its KV.
  void Discard(VerifierConnection& connection, uint64_t id);

 private:
  // Sessions that each verifier is guaranteed.
  int Part() const;
  // Closes a session of the verifier that holds the most, by `amount`, in favour of one of
  // `asking`'s. Returns false if none holds more than `fair`.
  template <class Amount>
  bool GiveWay(const VerifierConnection& asking, int64_t fair, Amount amount);

  const int max_sessions_;
  Model* const model_;
  DraftObservers* const observers_;
  std::unique_ptr<PrefixCache> prefixes_;  // nullptr: no KV is kept
  PageBudget pages_;                       // outlives the sessions
  std::map<uint64_t, VerifierConnection> connections_;
  int size_ = 0;
  uint64_t opened_ = 0;
  uint64_t plans_ = 0;
};

}  // namespace outrider
