// The connections to verifiers and the sessions held for them, with the pages that they hold.
//
// The KV of texts stays, by whole pages, for sessions that begin the same (the next turn of a chat,
// a system prompt), until somebody needs the pages.
//
// Verifiers share the drafter fairly. Each is sure of an equal part of the sessions and has what is
// free beyond: a session of one that holds more gives way to one of a verifier that holds less than
// its part, and so with KV pages.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "drafter/propose/draft_kv.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/propose/draft_session.h"
#include "drafter/propose/held_session.h"

namespace outrider {

class DraftSessions {
 public:
  // `max_sessions`: of all verifiers, at least 1. `model` and `observers` must outlive it. Without
  // `keep_prefixes` no KV stays.
  DraftSessions(int max_sessions, Model* model, DraftObservers* observers,
                bool keep_prefixes = false);

  // Connections by their id. An id that is connected already is left as it is.
  void Connect(uint64_t id, VerifierConnection connection);
  // Closes the connection's sessions, and forgets it.
  void Disconnect(uint64_t id);
  // nullptr: not connected.
  VerifierConnection* Find(uint64_t id);
  std::map<uint64_t, VerifierConnection>& connections() { return connections_; }

  // Sessions held, of all verifiers.
  int size() const { return size_; }
  PageBudget& pages() { return pages_; }
  // As the drafter sees it itself; a verifier is told its own session_limit instead.
  DrafterLoad load() const;
  // Sessions that the verifier may hold at most, as things are.
  int SessionLimit(const VerifierConnection& connection) const;

  // Room for one more session of this verifier, which another one may have to give up.
  // kResourceExhausted: there is none.
  Status MakeRoom(const VerifierConnection& connection);
  // Holds the session under `id`. REQUIRES: the connection holds none of that id.
  HeldSession& Add(VerifierConnection& connection, uint64_t id, DraftSession session);
  // The session's tokens are all in its KV, which others may share from now on.
  void SharePrefix(HeldSession& held);
  // A plan of the session came.
  void StampPlan(HeldSession& held, Time now);
  // Pages for the plan that the session has begun, which guesses and then sessions of verifiers
  // with more tokens may have to give up. kResourceExhausted: there are none.
  Status SecurePages(HeldSession& held);

  // Answers a plan without tokens, and forgets the session if it is held.
  void Refuse(VerifierConnection& connection, uint64_t id, uint32_t round, const Status& why);
  // Forgets the session and keeps the KV of its text. Ids that are not held are ignored.
  void Close(VerifierConnection& connection, uint64_t id);
  // The same without keeping anything.
  void Forget(VerifierConnection& connection, uint64_t id);

 private:
  // Sessions that each verifier is sure of.
  int Part() const;
  // Gives up a session of the verifier that holds the most, by `amount`, for one of `asking`'s.
  // False when nobody holds more than `fair`.
  template <class Amount>
  bool GiveWay(const VerifierConnection& asking, int64_t fair, Amount amount);

  const int max_sessions_;
  Model* const model_;
  DraftObservers* const observers_;
  std::unique_ptr<PrefixCache> prefixes_;  // nullptr: nothing is kept
  PageBudget pages_;                       // outlives the sessions
  std::map<uint64_t, VerifierConnection> connections_;
  int size_ = 0;
  uint64_t opened_ = 0;
  uint64_t plans_ = 0;
};

}  // namespace outrider
