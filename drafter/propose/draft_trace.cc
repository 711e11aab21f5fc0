#include "drafter/propose/draft_trace.h"

#include <optional>
#include <utility>

namespace outrider {

std::unique_ptr<DraftTrace> DraftTrace::Open(Tracer* tracer, const SessionOpening& open, Time now) {
  std::optional<TraceContext> request = ParseTraceparent(open.traceparent);
  if (!request.has_value() || !request->sampled) return nullptr;
  Span span{.parent = std::move(*request),
            .remote_parent = true,
            .id = NewSpanId(),
            .name = "draft",
            .kind = SpanKind::kServer,
            .anchor = WallAnchor::Now(),
            .start = now,
            .end = now,
            .attributes = {{"outrider.session", static_cast<int64_t>(open.session)},
                           {"outrider.tokens.read", static_cast<int64_t>(open.tokens.size())}}};
  return std::unique_ptr<DraftTrace>(new DraftTrace(tracer, std::move(span)));
}

DraftTrace::~DraftTrace() {
  Attributes& a = span_.attributes;
  a.emplace_back("outrider.drafts", drafts_);
  a.emplace_back("outrider.tokens.drafted", tokens_);
  a.emplace_back("outrider.ahead.verdicts", ahead_);
  a.emplace_back("outrider.ahead.hits", ahead_hits_);
  tracer_->Record({std::move(span_)});
}

void DraftTrace::OnDraft(uint32_t round, int depth, int tokens, double seconds, Time now) {
  ++drafts_;
  tokens_ += tokens;
  span_.end = now;
  if (drafts_ > kDraftEvents) return;
  span_.events.push_back({.time = now,
                          .name = "draft sent",
                          .attributes = {{"outrider.round", int64_t{round}},
                                         {"outrider.draft.depth", int64_t{depth}},
                                         {"outrider.tokens.drafted", int64_t{tokens}},
                                         {"outrider.draft.seconds", seconds}}});
}

void DraftTrace::OnVerdictAhead(bool hit) {
  ++ahead_;
  if (hit) ++ahead_hits_;
}

void DraftTrace::Fail(const Status& why) { span_.status = why; }

DraftTrace* DraftTraces::Find(const HeldSession& held) const {
  const auto found = traces_.find(held.opened);
  return found == traces_.end() ? nullptr : found->second.get();
}

void DraftTraces::OnOpened(const HeldSession& held, const SessionOpening& open, Time now) {
  if (auto trace = DraftTrace::Open(tracer_, open, now); trace != nullptr) {
    traces_.emplace(held.opened, std::move(trace));
  }
}

void DraftTraces::OnDraftSent(const HeldSession& held, double seconds, Time now) {
  const DraftSession& session = held.mirror->session;
  if (DraftTrace* trace = Find(held); trace != nullptr) {
    trace->OnDraft(session.round(), session.depths_drawn(), session.draft().size(), seconds, now);
  }
}

void DraftTraces::OnVerdictAhead(const HeldSession& held, bool hit) {
  if (DraftTrace* trace = Find(held); trace != nullptr) trace->OnVerdictAhead(hit);
}

void DraftTraces::OnRefused(const HeldSession& held, const Status& why) {
  if (DraftTrace* trace = Find(held); trace != nullptr) trace->Fail(why);
}

void DraftTraces::OnClosed(const HeldSession& held) { traces_.erase(held.opened); }

}  // namespace outrider
