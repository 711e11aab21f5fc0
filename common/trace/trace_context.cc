#include "common/trace/trace_context.h"

#include <algorithm>
#include <random>
#include <vector>

namespace outrider {
namespace {

constexpr size_t kVersionAt = 0, kTraceAt = 3, kSpanAt = 36, kFlagsAt = 53, kEnd = 55;
constexpr uint8_t kSampledFlag = 1;
constexpr size_t kMaxStateMembers = 32;
constexpr size_t kMaxStateChars = 512;
constexpr size_t kLongMemberChars = 128;  // these are dropped first

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Lower case only, as the standard requires.
bool ParseHex(std::string_view text, std::span<uint8_t> out) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

bool AllZero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
}

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsKeyPart(std::string_view part, size_t max, bool digit_first) {
  if (part.empty() || part.size() > max) return false;
  if (!IsLower(part[0]) && !(digit_first && IsDigit(part[0]))) return false;
  return std::all_of(part.begin(), part.end(), [](char c) {
    return IsLower(c) || IsDigit(c) || c == '_' || c == '-' || c == '*' || c == '/';
  });
}

// simple-key, or tenant@system.
bool IsStateKey(std::string_view key) {
  const size_t pos = key.find('@');
  if (pos == std::string_view::npos) return IsKeyPart(key, 256, false);
  return IsKeyPart(key.substr(0, pos), 241, true) && IsKeyPart(key.substr(pos + 1), 14, false);
}

bool IsStateValue(std::string_view value) {
  if (value.empty() || value.size() > 256 || value.back() == ' ') return false;
  return std::all_of(value.begin(), value.end(),
                     [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

// Returns false if it is not a list of members.
bool AddMembers(std::string_view header, std::vector<std::string_view>* members) {
  while (true) {
    const size_t comma = header.find(',');
    const std::string_view member = Trim(header.substr(0, comma));
    if (!member.empty()) {  // empty ones are allowed
      const size_t equals = member.find('=');
      if (equals == std::string_view::npos) return false;
      const std::string_view key = member.substr(0, equals);
      if (!IsStateKey(key) || !IsStateValue(member.substr(equals + 1))) return false;
      for (const std::string_view other : *members) {
        if (other.substr(0, other.find('=')) == key) return false;
      }
      members->push_back(member);
      if (members->size() > kMaxStateMembers) return false;
    }
    if (comma == std::string_view::npos) return true;
    header.remove_prefix(comma + 1);
  }
}

template <class Id>
Id NewId() {
  // Uses the system's source each time: there is no state that forked or threaded code could share.
  std::random_device random;
  Id id{};
  do {
    for (size_t i = 0; i < id.size(); i += sizeof(uint32_t)) {
      const uint32_t word = random();
      for (size_t j = 0; j < sizeof word; ++j) id[i + j] = static_cast<uint8_t>(word >> (8 * j));
    }
  } while (AllZero(id));
  return id;
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view value) {
  value = Trim(value);
  if (value.size() < kEnd) return std::nullopt;
  std::array<uint8_t, 1> version{}, flags{};
  TraceContext context;
  if (!ParseHex(value.substr(kVersionAt, 2), version) || version[0] == 0xff) return std::nullopt;
  if (value[kTraceAt - 1] != '-' || value[kSpanAt - 1] != '-' || value[kFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  // Only a later version may have more, after a dash.
  if (value.size() > kEnd && (version[0] == 0 || value[kEnd] != '-')) return std::nullopt;
  if (!ParseHex(value.substr(kTraceAt, 32), context.trace) || AllZero(context.trace) ||
      !ParseHex(value.substr(kSpanAt, 16), context.span) || AllZero(context.span) ||
      !ParseHex(value.substr(kFlagsAt, 2), flags)) {
    return std::nullopt;
  }
  context.sampled = (flags[0] & kSampledFlag) != 0;
  return context;
}

std::string FormatTraceparent(const TraceContext& context) {
  return "00-" + ToHex(context.trace) + "-" + ToHex(context.span) +
         (context.sampled ? "-01" : "-00");
}

std::string JoinTracestate(std::span<const std::string_view> values) {
  std::vector<std::string_view> members;
  for (const std::string_view header : values) {
    if (!AddMembers(header, &members)) return "";
  }
  const auto chars = [&members] {
    size_t sum = members.empty() ? 0 : members.size() - 1;
    for (const std::string_view member : members) sum += member.size();
    return sum;
  };
  while (chars() > kMaxStateChars) {
    const auto is_long = [](std::string_view m) { return m.size() > kLongMemberChars; };
    const auto last_long = std::find_if(members.rbegin(), members.rend(), is_long);
    members.erase(last_long == members.rend() ? std::prev(members.end())
                                              : std::prev(last_long.base()));
  }
  std::string joined;
  for (const std::string_view member : members) {
    if (!joined.empty()) joined += ',';
    joined += member;
  }
  return joined;
}

std::optional<TraceContext> ReadTraceHeaders(std::span<const std::string_view> traceparent,
                                             std::span<const std::string_view> tracestate) {
  if (traceparent.size() != 1) return std::nullopt;
  std::optional<TraceContext> context = ParseTraceparent(traceparent[0]);
  if (context.has_value()) context->state = JoinTracestate(tracestate);
  return context;
}

TraceId NewTraceId() { return NewId<TraceId>(); }
SpanId NewSpanId() { return NewId<SpanId>(); }

std::string ToHex(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

}  // namespace outrider
