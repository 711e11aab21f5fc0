// W3C Trace Context (level 1): the trace that a request belongs to and its parent span, from the
// headers traceparent and tracestate.
//
// Ids come from the system's random source, never from a session's seed or random numbers: a trace
// does not affect what is generated.
//
// Thread: any; values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace outrider {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceContext {
  TraceId trace{};
  SpanId span{};  // parent of what follows
  bool sampled = false;
  std::string state = {};  // tracestate; "": none
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// nullopt if it is not a traceparent: a new trace begins then, and the tracestate is ignored. A
// version above 00 is read as far as 00 goes.
std::optional<TraceContext> ParseTraceparent(std::string_view value);

// Version 00.
std::string FormatTraceparent(const TraceContext& context);

// Joins the headers' values, in order, to one list: "" if a member is malformed or a key is
// repeated. Whole members are dropped to keep the length that must be passed on at least (512
// characters, 32 members).
std::string JoinTracestate(std::span<const std::string_view> values);

// Reads a request's headers. More than one traceparent counts as none.
std::optional<TraceContext> ReadTraceHeaders(std::span<const std::string_view> traceparent,
                                             std::span<const std::string_view> tracestate);

// Never zero.
TraceId NewTraceId();
SpanId NewSpanId();

std::string ToHex(std::span<const uint8_t> bytes);

}  // namespace outrider
