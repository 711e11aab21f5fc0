// The headers traceparent and tracestate, one per line: the first is the parent, the others are
// state. Accepted values are written back unchanged, and what is passed on is bounded.

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/trace/trace_context.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider;
  std::vector<std::string_view> lines;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (true) {
    const size_t end = rest.find('\n');
    lines.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  const std::vector<std::string_view> state(lines.begin() + 1, lines.end());
  const std::string joined = JoinTracestate(state);
  OUTRIDER_CHECK(joined.size() <= 512);
  OUTRIDER_CHECK(JoinTracestate(std::vector<std::string_view>{joined}) == joined);
  const auto context = ReadTraceHeaders(std::vector<std::string_view>{lines[0]}, state);
  if (!context.has_value()) return 0;
  OUTRIDER_CHECK(context->trace != TraceId{} && context->span != SpanId{});
  OUTRIDER_CHECK(context->state == joined);
  const std::string written = FormatTraceparent(*context);
  const auto again = ParseTraceparent(written);
  OUTRIDER_CHECK(again.has_value() && FormatTraceparent(*again) == written);
  return 0;
}
