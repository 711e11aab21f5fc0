#include "drafter/propose/draft_trace.h"

#include <optional>
#include <utility>

namespace outrider {

std::unique_ptr<DraftTrace> DraftTrace::Open(Tracer* tracer, const OpenEvent& open, Time now) {
  if (tracer == nullptr) return nullptr;
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

}  // namespace outrider
