// Spans of the sessions that a drafter serves. Each is a child of its request's span.
//
// Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/trace/span.h"
#include "common/trace/tracer.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

// One session's span, from its opening to its last draft, with the first drafts as events.
class DraftTrace {
 public:
  static constexpr int kDraftEvents = 32;

  // nullptr: the request is not traced.
  static std::unique_ptr<DraftTrace> Open(Tracer* tracer, const SessionOpening& open, Time now);
  // Records the span.
  ~DraftTrace();
  DraftTrace(const DraftTrace&) = delete;
  DraftTrace& operator=(const DraftTrace&) = delete;

  // A complete draft of `tokens` tokens was sent, `seconds` after its plan arrived.
  void OnDraft(uint32_t round, int depth, int tokens, double seconds, Time now);
  // A verdict arrived after lookahead drafting.
  void OnVerdictAhead(bool hit);
  // The session was closed with an error.
  void Fail(const Status& why);

 private:
  DraftTrace(Tracer* tracer, Span span) : tracer_(tracer), span_(std::move(span)) {}

  Tracer* const tracer_;
  Span span_;
  int64_t drafts_ = 0, tokens_ = 0;
  int64_t ahead_ = 0, ahead_hits_ = 0;
};

// Owner: DraftLoop.
class DraftTraces final : public DraftObserver {
 public:
  // `tracer` must outlive it. nullptr: this object must not be used.
  explicit DraftTraces(Tracer* tracer) : tracer_(tracer) {}

  void OnOpened(const HeldSession& held, const SessionOpening& open, Time now) override;
  void OnDraftSent(const HeldSession& held, double seconds, Time now) override;
  void OnVerdictAhead(const HeldSession& held, bool hit) override;
  void OnRefused(const HeldSession& held, const Status& why) override;
  void OnClosed(const HeldSession& held) override;

 private:
  // nullptr: the session is not traced.
  DraftTrace* Find(const HeldSession& held) const;

  Tracer* const tracer_;
  // by HeldSession::opened; only of traced sessions
  std::map<uint64_t, std::unique_ptr<DraftTrace>> traces_;
};

}  // namespace outrider
