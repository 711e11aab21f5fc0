#include "verifier/engine/request_record.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace outrider {
namespace {

const char* ReasonName(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

// "length,stop": each reason once.
std::string Joined(std::vector<std::string> reasons) {
  std::sort(reasons.begin(), reasons.end());
  reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
  std::string text;
  for (const std::string& reason : reasons) text += (text.empty() ? "" : ",") + reason;
  return text;
}

}  // namespace

bool IsRequestId(std::string_view text) {
  constexpr size_t kMaxIdBytes = 128;
  return !text.empty() && text.size() <= kMaxIdBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

std::shared_ptr<RequestRecord> RequestRecord::Start(Tracer* tracer,
                                                    std::optional<TraceContext> context,
                                                    Caller caller) {
  std::shared_ptr<RequestRecord> record(new RequestRecord(std::move(caller)));
  const bool traced =
      tracer != nullptr && (context.has_value() ? context->sampled : tracer->Sample());
  if (!traced) {
    if (context.has_value()) {
      record->link_ = TraceLink{.context = std::move(*context), .anchor = {}};
    }
    return record;
  }
  Span& span = record->span_.emplace(Span{.parent = context.value_or(TraceContext{}),
                                          .remote_parent = context.has_value(),
                                          .id = NewSpanId(),
                                          .name = {},
                                          .kind = SpanKind::kServer,
                                          .anchor = WallAnchor::Now(),
                                          .start = record->started_});
  if (!context.has_value()) span.parent.trace = NewTraceId();
  record->link_ = TraceLink{.context = {.trace = span.parent.trace,
                                        .span = span.id,
                                        .sampled = true,
                                        .state = span.parent.state},
                            .anchor = span.anchor};
  record->tracer_ = tracer;
  return record;
}

void RequestRecord::Name(std::string name, Attributes attributes) {
  if (!span_.has_value()) return;
  span_->name = std::move(name);
  span_->attributes = std::move(attributes);
}

void RequestRecord::Describe(const GenerationRequest& request, size_t prompt_tokens) {
  prompt_tokens_ = prompt_tokens;
  if (!span_.has_value()) return;
  Attributes& a = span_->attributes;
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

void RequestRecord::Add(const Chunk& chunk) {
  if (tokens_ == 0) first_token_ = std::chrono::steady_clock::now();
  tokens_ += chunk.tokens.size();
  drafted_ += chunk.drafted;
  accepted_ += chunk.accepted;
}

void RequestRecord::Add(const Summary& summary, bool new_prompt) {
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

void RequestRecord::End(const Status& status, Attributes attributes) {
  if (ended_.exchange(true)) return;
  const Time now = std::chrono::steady_clock::now();
  WriteLine(status, now);
  if (span_.has_value()) EndSpan(status, now, std::move(attributes));
}

void RequestRecord::WriteLine(const Status& status, Time now) const {
  // A client chooses its key, and a long one would leave no room for the other fields.
  constexpr size_t kMostClientBytes = 256;
  std::vector<LogField> fields = {{"id", caller_.id},
                                  {"route", caller_.route},
                                  {"client", caller_.client.substr(0, kMostClientBytes)},
                                  {"prompt_tokens", prompt_tokens_},
                                  {"tokens", tokens_},
                                  {"drafted", drafted_},
                                  {"accepted", accepted_}};
  if (first_token_.has_value()) {
    fields.emplace_back("ttft_seconds", Seconds(*first_token_ - started_));
  }
  fields.emplace_back("seconds", Seconds(now - started_));
  const std::string trace = link_.has_value() ? ToHex(link_->context.trace) : "";
  if (!trace.empty()) fields.emplace_back("trace_id", trace);
  if (status.ok()) {
    fields.emplace_back("finish_reason", Joined(finish_reasons_));
    // One forward pass costs more than its line.
    return LogUnlimited(LogLevel::kInfo, "request finished", fields);
  }
  fields.emplace_back("finish_reason", status.code() == Code::kCancelled ? "abort" : "error");
  fields.emplace_back("error", status.ToString());
  Log(LogLevel::kInfo, "request failed", fields);
}

void RequestRecord::EndSpan(const Status& status, Time now, Attributes attributes) {
  Attributes& a = span_->attributes;
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
  span_->status = status;
  span_->end = now;
  tracer_->Record({std::move(*span_)});
}

}  // namespace outrider
