// Compiles the grammars of sessions on a thread of its own, so that the drafting loop, for which
// all sessions wait, does not. A session is opened once its grammar is compiled. Verifiers take
// turns, so that none waits for all grammars of another.
//
// Owner: DraftLoop. Thread: the drafting loop; has a thread of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <thread>

#include "common/base/mutex.h"
#include "common/grammar/grammar_cache.h"
#include "common/spec/drafting.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

class GrammarCompiler {
 public:
  // The most waiting openings of a connection.
  static constexpr size_t kMostWaiting = 256;
  // With so many bytes or more of openings no further one waits.
  static constexpr size_t kMostWaitingBytes = 4 << 20;

  // `events`: gets a CompiledEvent for each opening. Both outlive it.
  GrammarCompiler(grammar::GrammarCache* cache, LinkEvents* events);
  ~GrammarCompiler();

  // The masks, if the grammar is already compiled; nullptr: call Submit.
  std::shared_ptr<grammar::GrammarMasks> Find(const GrammarSource& source) {
    return cache_->Find(source);
  }
  // Returns a ticket, which the event will have. kResourceExhausted: too many of the
  // connection's wait, or too large ones.
  Result<uint64_t> Submit(uint64_t connection, SessionOpening opening) OUTRIDER_EXCLUDES(mu_);
  // The connection has ended: its openings are not compiled any more.
  void Forget(uint64_t connection) OUTRIDER_EXCLUDES(mu_);

 private:
  struct Waiting {
    uint64_t ticket = 0;
    SessionOpening opening;
    size_t bytes = 0;
  };
  struct Queue {
    std::deque<Waiting> openings;  // not empty
    size_t bytes = 0;              // of all
  };

  void Run();
  // The connection whose turn it is. REQUIRES: an opening waits.
  uint64_t NextConnection() const OUTRIDER_REQUIRES(mu_);

  grammar::GrammarCache* const cache_;
  LinkEvents* const events_;
  Mutex mu_;
  std::condition_variable changed_;
  uint64_t tickets_ OUTRIDER_GUARDED_BY(mu_) = 0;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  // By connection.
  std::map<uint64_t, Queue> waiting_ OUTRIDER_GUARDED_BY(mu_);
  uint64_t served_ OUTRIDER_GUARDED_BY(mu_) = 0;  // the connection that had the last turn
  std::thread thread_;
};

}  // namespace outrider
