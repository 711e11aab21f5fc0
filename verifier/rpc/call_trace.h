// The span of a Generate call: its parent from the metadata, and its end.
//
// Thread: any.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>

#include "common/trace/trace_context.h"
#include "verifier/engine/request_trace.h"
#include "verifier/engine/sink.h"

namespace outrider {

// The trace context in the call's metadata. nullopt: none, or a malformed one.
std::optional<TraceContext> TraceOf(const grpc::ServerContextBase& context);

// Ends the call's span. `span` null: it is not recorded.
void EndSpan(const std::shared_ptr<RequestTrace>& span, const Status& status);

// Passes everything on to `sink`, and ends the span when the generation ends.
std::shared_ptr<GenerationSink> Traced(std::shared_ptr<GenerationSink> sink,
                                       std::shared_ptr<RequestTrace> span);

}  // namespace outrider
