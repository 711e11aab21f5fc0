// The span of a Generate call: where its trace comes from, and how it ends.
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

// What the call's metadata say. nullopt: no trace, or a malformed one.
std::optional<TraceContext> TraceOf(const grpc::ServerContextBase& context);

// The call is over. `span` null: it is not recorded.
void EndSpan(const std::shared_ptr<RequestTrace>& span, const Status& status);

// Ends the span when the generation ends; everything goes on to `sink`.
std::shared_ptr<GenerationSink> Traced(std::shared_ptr<GenerationSink> sink,
                                       std::shared_ptr<RequestTrace> span);

}  // namespace outrider
