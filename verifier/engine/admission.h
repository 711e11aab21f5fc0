// Decides which sequences hold KV pages and which wait. Waiting ones are admitted in turns by
// client. A running one that needs more pages takes them from the prefix cache if that has enough;
// if not, the youngest running sequence is preempted: it returns to its old place in the queue, and
// its text is computed again.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/model/prefix_cache.h"
#include "verifier/engine/engine_observer.h"
#include "verifier/engine/session.h"

namespace outrider {

struct AdmissionOptions {
  int max_running = 256;   // at once
  int max_waiting = 1024;  // in the queue
  int max_waiting_per_client = 1024;
  bool prefix_cache = true;               // share the KV of common prefixes
  PrefixDigest* prefix_digest = nullptr;  // lists the prefix cache's pages, if set; outlives it
};

class Admission {
 public:
  // All must outlive it. `sessions` is the engine's table.
  Admission(const AdmissionOptions& options, SessionTable* sessions, Model* model,
            EngineObservers* observers);

  // kResourceExhausted: the queue, or this client's share of it, has no room for this many more.
  Status CheckQueue(const std::string& client, int more = 1);

  int running() const { return running_; }
  int waiting() const { return static_cast<int>(sessions_.size()) - running_; }
  int cached_pages() const { return prefixes_.Pages(); }

  // Admits the next waiting session, if it fits: the oldest one of the client with the fewest
  // running ones. If that one does not fit, none is admitted, so that small requests cannot starve
  // a large one. Returns nullptr if none was admitted.
  Session* AdmitNext(Time now);
  // Reserves pages for the session's first `tokens` tokens, preempting younger sessions if needed.
  // Returns false if only older ones could be preempted. REQUIRES: session.is_running().
  bool Reserve(Session& session, int tokens);

  // Lets the prefix cache share the session's prompt, whose KV is complete.
  void SharePrompt(const Session& session);
  // Gives the pages of a finished session to the prefix cache, if there is one.
  // REQUIRES: session.is_running().
  void CacheText(Session& session);
  // Frees the session's pages, if any.
  void Release(Session& session);

  // Records the time of a request from admission to its end.
  void RecordRequest(double seconds);
  // When to try a refused request again: after the time that the queue takes at the recent pace.
  Duration RetryAfter() const;

 private:
  // Whether it waits for pages, and not for another session to compute its prompt.
  bool IsReady(const Session& session) const;
  // nullptr: none is ready.
  Session* NextWaiting();
  void Preempt(Session& session);

  const AdmissionOptions options_;
  SessionTable& sessions_;
  Model& model_;
  EngineObservers& observers_;
  PrefixCache prefixes_;
  int running_ = 0;
  double request_seconds_ = 0;  // recent mean; 0: unknown
};

}  // namespace outrider
