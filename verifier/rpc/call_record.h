// The record of a Generate call: its trace context and id from the metadata, and its end.
//
// Thread: any.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>

#include "common/trace/trace_context.h"
#include "verifier/engine/request_record.h"
#include "verifier/engine/sink.h"

namespace outrider {

// The trace context in the call's metadata. nullopt: none, or a malformed one.
std::optional<TraceContext> TraceOf(const grpc::ServerContextBase& context);

// The call's x-request-id, if it is short and visible ASCII; "": none.
std::string RequestIdOf(const grpc::ServerContextBase& context);

// Ends the call's record.
void EndRecord(RequestRecord& record, const Status& status);

// Passes everything on to `sink`, and ends the record when the generation ends.
std::shared_ptr<GenerationSink> Recorded(std::shared_ptr<GenerationSink> sink,
                                         std::shared_ptr<RequestRecord> record);

}  // namespace outrider
