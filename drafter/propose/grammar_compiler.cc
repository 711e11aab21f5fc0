#include "drafter/propose/grammar_compiler.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace outrider {
namespace {

// About what it takes while it waits.
size_t BytesOf(const SessionOpening& open) {
  const SamplingParams& sampling = open.sampling;
  size_t bytes = (open.tokens.size() + sampling.allowed_tokens.size()) * sizeof(TokenId) +
                 sampling.logit_bias.size() * sizeof(sampling.logit_bias[0]) +
                 sampling.grammar->bytes();
  for (const std::vector<TokenId>& word : sampling.bad_words) {
    bytes += sizeof(std::vector<TokenId>) + word.size() * sizeof(TokenId);
  }
  return bytes;
}

}  // namespace

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
  const size_t bytes = BytesOf(opening);
  uint64_t ticket = 0;
  {
    const MutexLock lock(mu_);
    Queue& queue = waiting_[connection];
    if (queue.openings.size() == kMostWaiting || queue.bytes >= kMostWaitingBytes) {
      return ResourceExhausted(std::to_string(queue.openings.size()) + " sessions (" +
                               std::to_string(queue.bytes) +
                               " bytes) of this verifier wait for their grammars to be compiled");
    }
    ticket = ++tickets_;
    queue.openings.push_back({.ticket = ticket, .opening = std::move(opening), .bytes = bytes});
    queue.bytes += bytes;
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
      Queue& queue = waiting_.at(connection);
      next = std::move(queue.openings.front());
      queue.openings.pop_front();
      queue.bytes -= next.bytes;
      if (queue.openings.empty()) waiting_.erase(connection);
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
