// A request's own span, from its arrival at a front to its end, and what the spans and the drafter
// behind it go on from.
//
// Nothing of it has a part in what is generated.
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
  // What a request without a recorded span goes on from, too: what its client said.
  struct Started {
    std::shared_ptr<RequestTrace> span;  // null: the request is not recorded
    std::optional<TraceLink> link;       // for GenerationRequest::trace
  };
  // `tracer` may be null. `client`: what came with the request; without it a new trace may begin.
  static Started Start(Tracer* tracer, std::optional<TraceContext> client);

  // What kind of request it is.
  void Name(std::string name, Attributes attributes);

  // What the request asks for.
  void Describe(const GenerationRequest& request);
  // A generation of it has ended well. `new_prompt`: none before had the same prompt.
  void Add(const Summary& summary, bool new_prompt = true);
  // It is over: the first call counts. `attributes`: of the end.
  void End(const Status& status, Attributes attributes = {});

 private:
  RequestTrace(Tracer* tracer, Span span) : tracer_(tracer), span_(std::move(span)) {}

  Tracer* const tracer_;
  Span span_;
  std::atomic<bool> ended_ = false;
  int input_tokens_ = 0, output_tokens_ = 0;
  std::vector<std::string> finish_reasons_;
  Summary sum_;  // of the generations: counts only
  std::map<std::string, int> arm_rounds_;
};

}  // namespace outrider
