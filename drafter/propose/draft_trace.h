// The span of one session that a drafter serves, a child of its request's: from the session's
// opening to its last draft, with the first drafts as events.
//
// Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/trace/span.h"
#include "common/trace/tracer.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

class DraftTrace {
 public:
  static constexpr int kDraftEvents = 32;

  // nullptr: the session is not recorded. `tracer` may be null.
  static std::unique_ptr<DraftTrace> Open(Tracer* tracer, const OpenEvent& open, Time now);
  // Records the span.
  ~DraftTrace();
  DraftTrace(const DraftTrace&) = delete;
  DraftTrace& operator=(const DraftTrace&) = delete;

  // A whole draft of `tokens` tokens was sent, `seconds` after its plan came.
  void OnDraft(uint32_t round, int depth, int tokens, double seconds, Time now);
  // A verdict was worked ahead of.
  void OnVerdictAhead(bool hit);
  // The session is given up.
  void Fail(const Status& why);

 private:
  DraftTrace(Tracer* tracer, Span span) : tracer_(tracer), span_(std::move(span)) {}

  Tracer* const tracer_;
  Span span_;
  int64_t drafts_ = 0, tokens_ = 0;
  int64_t ahead_ = 0, ahead_hits_ = 0;
};

}  // namespace outrider
