// Structured logs on stderr: one line per event, `key=value` pairs after the message.
//   Log(LogLevel::kInfo, "drafter joined", {{"drafter", name}, {"sessions", 3}});
// 2026-11-21T07:10:00.123Z INFO drafter joined drafter=d0 sessions=3
//
// Lines with the same message are limited (LineLimiter), except at level debug: the next line that
// is written says in the field `suppressed` how many were left out.
//
// Thread: any.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/status.h"

namespace outrider {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  template <class T>
  requires std::is_arithmetic_v<T> LogField(std::string_view k, T v)
      : key(k), value(std::to_string(v)) {}

  std::string_view key;
  std::string value;
};

// `message`: our own text. Text from outside goes into fields, whose control characters are
// escaped.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

// Drops messages below `level`. Default: info.
void SetLogLevel(LogLevel level);
// One JSON object per line instead of text.
void SetLogJson(bool json);
// "debug", "info", "warning" or "error".
Result<LogLevel> ParseLogLevel(std::string_view name);

}  // namespace outrider
