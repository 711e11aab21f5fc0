#include "verifier/engine/request_trace.h"

#include <chrono>
#include <utility>
#include <vector>

namespace outrider {
namespace {

const char* ReasonName(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

}  // namespace

RequestTrace::Started RequestTrace::Start(Tracer* tracer, std::optional<TraceContext> client) {
  const bool recorded =
      tracer != nullptr && (client.has_value() ? client->sampled : tracer->Sample());
  if (!recorded) {
    if (!client.has_value()) return {};
    return {.span = nullptr, .link = TraceLink{.context = std::move(*client), .anchor = {}}};
  }
  Span span{.parent = client.value_or(TraceContext{}),
            .remote_parent = client.has_value(),
            .id = NewSpanId(),
            .name = {},
            .kind = SpanKind::kServer,
            .anchor = WallAnchor::Now(),
            .start = std::chrono::steady_clock::now()};
  if (!client.has_value()) span.parent.trace = NewTraceId();
  TraceLink link{.context = {.trace = span.parent.trace,
                             .span = span.id,
                             .sampled = true,
                             .state = span.parent.state},
                 .anchor = span.anchor};
  return {.span = std::shared_ptr<RequestTrace>(new RequestTrace(tracer, std::move(span))),
          .link = std::move(link)};
}

void RequestTrace::Name(std::string name, Attributes attributes) {
  span_.name = std::move(name);
  span_.attributes = std::move(attributes);
}

void RequestTrace::Describe(const GenerationRequest& request) {
  Attributes& a = span_.attributes;
  const SamplingParams& sampling = request.sampling;
  a.emplace_back("gen_ai.request.temperature", static_cast<double>(sampling.temperature));
  if (sampling.top_p < 1) {
    a.emplace_back("gen_ai.request.top_p", static_cast<double>(sampling.top_p));
  }
  if (sampling.top_k > 0) {
    a.emplace_back("gen_ai.request.top_k", static_cast<double>(sampling.top_k));
  }
  if (request.max_tokens.has_value()) {
    a.emplace_back("gen_ai.request.max_tokens", int64_t{*request.max_tokens});
  }
}

void RequestTrace::Add(const Summary& summary, bool new_prompt) {
  if (new_prompt) input_tokens_ += summary.prompt_tokens;
  output_tokens_ += summary.completion_tokens;
  finish_reasons_.emplace_back(ReasonName(summary.reason));
  sum_.rounds += summary.rounds;
  sum_.drafted_rounds += summary.drafted_rounds;
  sum_.drafted_tokens += summary.drafted_tokens;
  sum_.accepted_tokens += summary.accepted_tokens;
  sum_.arm_switches += summary.arm_switches;
  if (!summary.drafter.empty()) sum_.drafter = summary.drafter;
  for (const auto& [arm, rounds] : summary.arm_rounds) arm_rounds_[arm] += rounds;
}

void RequestTrace::End(const Status& status, Attributes attributes) {
  if (ended_.exchange(true)) return;
  Attributes& a = span_.attributes;
  a.insert(a.end(), attributes.begin(), attributes.end());
  if (!finish_reasons_.empty()) {
    a.emplace_back("gen_ai.usage.input_tokens", int64_t{input_tokens_});
    a.emplace_back("gen_ai.usage.output_tokens", int64_t{output_tokens_});
    a.emplace_back("gen_ai.response.finish_reasons", std::move(finish_reasons_));
    a.emplace_back("outrider.rounds", int64_t{sum_.rounds});
    a.emplace_back("outrider.rounds.drafted", int64_t{sum_.drafted_rounds});
    a.emplace_back("outrider.tokens.drafted", int64_t{sum_.drafted_tokens});
    a.emplace_back("outrider.tokens.accepted", int64_t{sum_.accepted_tokens});
    if (!sum_.drafter.empty()) a.emplace_back("outrider.drafter", sum_.drafter);
    for (const auto& [arm, rounds] : arm_rounds_) {
      a.emplace_back("outrider.arm.rounds." + arm, int64_t{rounds});
    }
    if (!arm_rounds_.empty()) {
      a.emplace_back("outrider.arm.switches", int64_t{sum_.arm_switches});
    }
  }
  if (!status.ok()) a.emplace_back("error.type", std::string(CodeName(status.code())));
  span_.status = status;
  span_.end = std::chrono::steady_clock::now();
  tracer_->Record({std::move(span_)});
}

}  // namespace outrider
