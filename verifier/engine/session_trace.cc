#include "verifier/engine/session_trace.h"

#include <utility>

#include "verifier/engine/session.h"

namespace outrider {

std::unique_ptr<SessionTrace> SessionTrace::Open(Tracer* tracer, const GenerationRequest& request) {
  if (tracer == nullptr || !request.trace.has_value() || !request.trace->context.sampled) {
    return nullptr;
  }
  return std::unique_ptr<SessionTrace>(new SessionTrace(tracer, *request.trace));
}

void SessionTrace::OnRound(const Session& session, const Chunk& chunk, Time now) {
  if (session.round == 1) return;  // the prompt's
  const bool kept = first_.size() < kRoundSpans;
  if (!kept && slowest_.has_value() &&
      now - session.times.last_token <= slowest_->end - slowest_->begin) {
    return;
  }
  Round round{.round = session.round,
              .begin = session.times.last_token,
              .end = now,
              .tokens = static_cast<int>(chunk.tokens.size()),
              .drafted = chunk.drafted,
              .accepted = chunk.accepted};
  if (session.planner != nullptr) {
    round.source = session.planner->arm_name();
  } else {
    round.source = chunk.drafted > 0 ? "drafter" : "plain";
  }
  if (kept) {
    first_.push_back(std::move(round));
  } else {
    slowest_ = std::move(round);
  }
}

Span SessionTrace::Child(const SpanId& parent, std::string name, Time start, Time end) const {
  Span span{.parent = link_.context,
            .id = NewSpanId(),
            .name = std::move(name),
            .anchor = link_.anchor,
            .start = start,
            .end = end};
  span.parent.span = parent;
  return span;
}

void SessionTrace::End(const Session& session, Time now, const Status& status) {
  const SpanId& request = link_.context.span;
  const bool decoded = session.round > 1;
  const Time admitted = session.times.admitted.value_or(now);
  std::vector<Span> spans;
  spans.push_back(Child(request, "queue", session.times.submitted, admitted));
  if (session.times.admitted.has_value()) {
    Span& prefill = spans.emplace_back(
        Child(request, "prefill", admitted, decoded ? session.times.first_token : now));
    prefill.attributes = {{"gen_ai.usage.input_tokens", int64_t{session.prompt_tokens}}};
  }
  if (decoded) {
    const Summary& summary = session.summary;
    const size_t prompt = static_cast<size_t>(session.prompt_tokens);
    Span& decode = spans.emplace_back(Child(request, "decode", session.times.first_token, now));
    decode.attributes = {
        {"gen_ai.usage.output_tokens", static_cast<int64_t>(session.tokens.size() - prompt)},
        {"outrider.rounds", int64_t{summary.rounds}},
        {"outrider.tokens.drafted", int64_t{summary.drafted_tokens}},
        {"outrider.tokens.accepted", int64_t{summary.accepted_tokens}}};
  }
  spans.back().status = status;
  const SpanId decode = spans.back().id;
  if (slowest_.has_value()) first_.push_back(*std::exchange(slowest_, std::nullopt));
  for (Round& round : first_) {
    Span& span = spans.emplace_back(Child(decode, "round", round.begin, round.end));
    span.attributes = {{"outrider.round", int64_t{round.round}},
                       {"outrider.arm", std::move(round.source)},
                       {"outrider.tokens", int64_t{round.tokens}},
                       {"outrider.tokens.drafted", int64_t{round.drafted}},
                       {"outrider.tokens.accepted", int64_t{round.accepted}}};
  }
  for (Span& span : spans) {
    span.attributes.emplace_back("outrider.session", static_cast<int64_t>(session.id));
  }
  tracer_->Record(std::move(spans));
}

}  // namespace outrider
