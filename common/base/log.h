// Structured logs on stderr: one line per event, `key=value` pairs after the message.
//   Log(LogLevel::kInfo, "drafter joined", {{"drafter", name}, {"sessions", 3}});
// 2026-11-21T07:10:00.123Z INFO drafter joined drafter=d0 sessions=3
//
// Lines with the same message are limited (LineLimiter), except at level debug: the next line that
// is written says in the field `suppressed` how many were left out.
//
// Nothing waits for the reader of stderr: a line for which a pipe, a socket or a terminal has no
// room is lost and counted (LogLinesLost). A line has at most kMaxLogLineBytes, so that a pipe
// takes it whole; longer values are cut. A terminal may take the beginning of a line, which then
// counts as lost; the next line does not continue it. Only where stderr cannot be opened once more
// (no /proc, or no permission) may a line wait: for a terminal with some room, but too little, or
// for a pipe that another process fills just then.
//
// Thread: any.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
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
  requires std::is_arithmetic_v<T> LogField(std::string_view k, T v);

  std::string_view key;
  std::string value;
  bool is_text = true;  // false: a finite number or a boolean, which JSON does not quote
};

template <class T>
requires std::is_arithmetic_v<T> LogField::LogField(std::string_view k, T v) : key(k) {
  if constexpr (std::is_same_v<T, bool>) {
    value = v ? "true" : "false";
  } else {
    value = std::to_string(v);
  }
  if constexpr (std::is_floating_point_v<T>) {
    is_text = !std::isfinite(v);
  } else {
    is_text = false;
  }
}

// POSIX's PIPE_BUF on Linux: a pipe takes as much whole or not at all.
inline constexpr size_t kMaxLogLineBytes = 4096;

// `message`: our own text. Text from outside goes into fields, whose control characters are
// escaped.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
void Log(LogLevel level, std::string_view message, std::span<const LogField> fields);
// The same without the limit on equal lines, for lines whose cause costs more than the line.
void LogUnlimited(LogLevel level, std::string_view message, std::span<const LogField> fields);

// Lines that were lost since the start, because stderr had no room for them or failed.
uint64_t LogLinesLost();

// Drops messages below `level`. Default: info.
void SetLogLevel(LogLevel level);
// One JSON object per line instead of text.
void SetLogJson(bool json);
// "debug", "info", "warning" or "error".
Result<LogLevel> ParseLogLevel(std::string_view name);

}  // namespace outrider
