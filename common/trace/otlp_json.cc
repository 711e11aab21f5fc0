#include "common/trace/otlp_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/base/version.h"

namespace outrider {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStatusError = 2;
// SpanFlags of OTLP: the W3C flags, and whether the parent belongs to another process.
constexpr uint32_t kSampled = 0x01, kHasIsRemote = 0x100, kIsRemote = 0x200;

// The longest text: a peer may have written it, and readers limit lines.
constexpr size_t kMaxTextBytes = 1024;

struct ValueWriter {
  Json operator()(const std::string& value) const {
    return {{"stringValue", value.substr(0, kMaxTextBytes)}};
  }
  Json operator()(int64_t value) const { return {{"intValue", std::to_string(value)}}; }
  Json operator()(double value) const {
    // JSON cannot represent the others.
    return {{"doubleValue", std::isfinite(value) ? Json(value) : Json("NaN")}};
  }
  Json operator()(bool value) const { return {{"boolValue", value}}; }
  Json operator()(const std::vector<std::string>& values) const {
    Json array = Json::array();
    for (const std::string& value : values) array.push_back((*this)(value));
    return {{"arrayValue", {{"values", std::move(array)}}}};
  }
};

Json ToJson(const Attributes& attributes) {
  Json out = Json::array();
  for (const auto& [key, value] : attributes) {
    out.push_back({{"key", key}, {"value", std::visit(ValueWriter(), value)}});
  }
  return out;
}

Json ToJson(const Span& span) {
  const auto nanoseconds = [&span](Time time) {
    return std::to_string(span.anchor.Nanoseconds(time));
  };
  Json out = {{"traceId", ToHex(span.parent.trace)}, {"spanId", ToHex(span.id)}};
  if (!span.parent.state.empty()) out["traceState"] = span.parent.state;
  if (span.parent.span != SpanId{}) out["parentSpanId"] = ToHex(span.parent.span);
  out["flags"] = kSampled | kHasIsRemote | (span.remote_parent ? kIsRemote : 0);
  out["name"] = span.name;
  out["kind"] = static_cast<int>(span.kind);
  out["startTimeUnixNano"] = nanoseconds(span.start);
  out["endTimeUnixNano"] = nanoseconds(std::max(span.start, span.end));
  out["attributes"] = ToJson(span.attributes);
  if (!span.events.empty()) {
    Json& events = out["events"] = Json::array();
    for (const SpanEvent& event : span.events) {
      events.push_back({{"timeUnixNano", nanoseconds(event.time)},
                        {"name", event.name},
                        {"attributes", ToJson(event.attributes)}});
    }
  }
  out["status"] = Json::object();
  if (!span.status.ok()) {
    out["status"] = {{"message", span.status.message().substr(0, kMaxTextBytes)},
                     {"code", kStatusError}};
  }
  return out;
}

}  // namespace

std::string ToOtlpJson(const Attributes& resource, std::span<const Span> spans) {
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(ToJson(span));
  const Json scope = {{"name", "outrider"}, {"version", kVersion}};
  const Json scoped = {{"scope", scope}, {"spans", std::move(list)}};
  const Json resource_spans = {{"resource", {{"attributes", ToJson(resource)}}},
                               {"scopeSpans", Json::array({scoped})}};
  // Names come from outside and may be invalid UTF-8.
  return Json{{"resourceSpans", Json::array({resource_spans})}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace outrider
