#include "drafter/propose/grammar_compiler.h"

#include <string>
#include <utility>

#include "common/base/log.h"

namespace outrider {

GrammarCompiler::GrammarCompiler(grammar::GrammarCache* cache, LinkEvents* events)
    : cache_(cache), events_(events), thread_([this] { Run(); }) {}

GrammarCompiler::~GrammarCompiler() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<uint64_t> GrammarCompiler::Submit(uint64_t connection, SessionOpening opening) {
  uint64_t ticket = 0;
  {
    const MutexLock lock(mu_);
    std::deque<Waiting>& waiting = waiting_[connection];
    if (waiting.size() == kMostWaiting) {
      return ResourceExhausted(std::to_string(kMostWaiting) +
                               " grammars of this verifier wait to be compiled");
    }
    ticket = ++tickets_;
    waiting.push_back({.ticket = ticket, .opening = std::move(opening)});
  }
  changed_.notify_all();
  return ticket;
}

void GrammarCompiler::Forget(uint64_t connection) {
  const MutexLock lock(mu_);
  waiting_.erase(connection);
}

uint64_t GrammarCompiler::NextConnection() const {
  const auto after = waiting_.upper_bound(served_);
  return after == waiting_.end() ? waiting_.begin()->first : after->first;
}

void GrammarCompiler::Run() {
  while (true) {
    Waiting next;
    uint64_t connection = 0;
    {
      MutexLock lock(mu_);
      while (!stopping_ && waiting_.empty()) lock.Wait(changed_);
      if (stopping_) return;
      served_ = connection = NextConnection();
      std::deque<Waiting>& waiting = waiting_.at(connection);
      next = std::move(waiting.front());
      waiting.pop_front();
      if (waiting.empty()) waiting_.erase(connection);
    }
    CompiledEvent event{.ticket = next.ticket, .opening = std::move(next.opening)};
    Result<std::shared_ptr<grammar::GrammarMasks>> masks =
        cache_->Get(*event.opening.sampling.grammar);
    if (masks.ok()) {
      event.masks = std::move(masks).value();
    } else {
      Log(LogLevel::kWarning, "a session is drafted for without its grammar",
          {{"session", event.opening.session}, {"reason", masks.status().ToString()}});
    }
    // If there is no room for the event, the session is refused when its verdict comes.
    (void)events_->Push({.connection = connection, .message = std::move(event)});
  }
}

}  // namespace outrider
