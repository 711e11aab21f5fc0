// A request's own record, from its arrival at a front to its end: the line that the log gets then,
// and, if the request is traced, its span and the link from which its other spans and the drafter's
// continue.
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
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/trace/span.h"
#include "common/trace/tracer.h"
#include "verifier/engine/request.h"
#include "verifier/engine/sink.h"

namespace outrider {

// Whether a client's x-request-id is used: visible ASCII, 128 characters at most.
bool IsRequestId(std::string_view text);

class RequestRecord {
 public:
  // Who asks for what, as the log line says it.
  struct Caller {
    std::string id;      // of the request
    std::string route;   // "Generate", "completions", "chat_completions"
    std::string client;  // the key by which it is counted; "": none
  };

  // `tracer` may be null. `context`: the trace context that came with the request; without it a new
  // trace may begin.
  static std::shared_ptr<RequestRecord> Start(Tracer* tracer, std::optional<TraceContext> context,
                                              Caller caller);

  // For GenerationRequest::trace; unset: none. A request without a recorded span also has one, to
  // what its client sent.
  const std::optional<TraceLink>& link() const { return link_; }
  bool is_traced() const { return span_.has_value(); }

  // Names the kind of request, in its span.
  void Name(std::string name, Attributes attributes);

  // Records what the request asks for. `prompt_tokens`: of all its prompts.
  void Describe(const GenerationRequest& request, size_t prompt_tokens);
  // The tokens of a round.
  void Add(const Chunk& chunk);
  // A generation of the request has succeeded. `new_prompt`: the first one with this prompt.
  void Add(const Summary& summary, bool new_prompt = true);
  // Ends the request: writes the line and ends the span. Only the first call counts. `attributes`:
  // of the span's end.
  void End(const Status& status, Attributes attributes = {});

 private:
  explicit RequestRecord(Caller caller) : caller_(std::move(caller)) {}
  void WriteLine(const Status& status, Time now) const;
  void EndSpan(const Status& status, Time now, Attributes attributes);

  const Caller caller_;
  const Time started_ = std::chrono::steady_clock::now();
  std::atomic<bool> ended_ = false;

  // For the line, of all choices.
  size_t prompt_tokens_ = 0;
  size_t tokens_ = 0;
  int drafted_ = 0, accepted_ = 0;
  std::optional<Time> first_token_;

  Tracer* tracer_ = nullptr;
  std::optional<Span> span_;
  std::optional<TraceLink> link_;
  int input_tokens_ = 0, output_tokens_ = 0;
  std::vector<std::string> finish_reasons_;
  Summary sum_;  // over the generations; counts only
  std::map<std::string, int> arm_rounds_;
};

}  // namespace outrider
