// A request's own span, from its arrival at a front to its end, and the link from which its other
// spans and the drafter's continue.
//
// It does not affect what is generated.
//
// Owner: the front and its sinks. Thread: one at a time; End: any.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/trace/span.h"
#include "common/trace/tracer.h"
#include "verifier/engine/request.h"
#include "verifier/engine/sink.h"

namespace outrider {

class RequestTrace {
 public:
  // A request without a recorded span also has a link, to what its client sent.
  struct Started {
    std::shared_ptr<RequestTrace> span;  // null: the request is not recorded
    std::optional<TraceLink> link;       // for GenerationRequest::trace
  };
  // `tracer` may be null. `client`: the context that came with the request; without it a new trace
  // may begin.
  static Started Start(Tracer* tracer, std::optional<TraceContext> client);

  // Names the kind of request.
  void Name(std::string name, Attributes attributes);

  // Records what the request asks for.
  void Describe(const GenerationRequest& request);
  // A generation of the request has succeeded. `new_prompt`: the first one with this prompt.
  void Add(const Summary& summary, bool new_prompt = true);
  // Ends the span; only the first call counts. `attributes`: of the end.
  void End(const Status& status, Attributes attributes = {});

 private:
  RequestTrace(Tracer* tracer, Span span) : tracer_(tracer), span_(std::move(span)) {}

  Tracer* const tracer_;
  Span span_;
  std::atomic<bool> ended_ = false;
  int input_tokens_ = 0, output_tokens_ = 0;
  std::vector<std::string> finish_reasons_;
  Summary sum_;  // over the generations; counts only
  std::map<std::string, int> arm_rounds_;
};

}  // namespace outrider
