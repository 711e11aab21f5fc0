// W3C Trace Context (level 1): which trace a request belongs to and which span it comes from, as
// the headers traceparent and tracestate say it.
//
// Ids come from the system's random source, never from a session's seed or coins: nothing of a
// trace has a part in what is generated.
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
  SpanId span{};  // what comes next is a child of it
  bool sampled = false;
  std::string state = {};  // tracestate; "": none
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// nullopt for what is no traceparent: a new trace begins then, and the tracestate beside it is of
// no use. A version above 00 is read as far as 00 goes.
std::optional<TraceContext> ParseTraceparent(std::string_view value);

// Version 00.
std::string FormatTraceparent(const TraceContext& context);

// The headers' values, in order, as one list: "" if a member is malformed or a key comes twice, and
// cut by whole members to what has to be passed on at least (512 characters, 32 members).
std::string JoinTracestate(std::span<const std::string_view> values);

// What a request's headers say. More than one traceparent is as good as none.
std::optional<TraceContext> ReadTraceHeaders(std::span<const std::string_view> traceparent,
                                             std::span<const std::string_view> tracestate);

// Never zero.
TraceId NewTraceId();
SpanId NewSpanId();

std::string ToHex(std::span<const uint8_t> bytes);

}  // namespace outrider
