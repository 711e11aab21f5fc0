#include "common/base/log.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>

#include "common/base/line_limiter.h"
#include "common/base/mutex.h"

namespace outrider {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<bool> g_json{false};

constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

// Never destroyed, because library threads may log while static objects are destroyed.
struct Limited {
  Mutex mu;
  LineLimiter lines OUTRIDER_GUARDED_BY(mu);
};
Limited& Limits() {
  static auto* const limits = new Limited;
  return *limits;
}

std::string Timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char date[24];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  char out[40];
  std::snprintf(out, sizeof out, "%s.%03dZ", date, static_cast<int>(millis));
  return out;
}

struct CodePoint {
  uint32_t value = 0xFFFD;  // replaces a byte of invalid UTF-8
  size_t bytes = 1;
  bool valid = false;
};

// The first code point of `text`, which is not empty.
CodePoint FirstOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {.value = lead, .valid = true};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  uint32_t value = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    value = value << 6 | (next & 0x3F);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  if (surrogate || overlong || value > 0x10FFFF) return {};
  return {.value = value, .bytes = bytes, .valid = true};
}

// Whether a terminal or a line reader would treat it specially: C0, DEL, C1, and Unicode's line and
// paragraph separators.
bool IsControl(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029;
}

// Escapes control characters, so that a log line stays one line of valid UTF-8 whatever a peer
// sends.
std::string Escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint c = FirstOf(text);
    if (c.value == '"' || c.value == '\\') {
      out += '\\';
      out += static_cast<char>(c.value);
    } else if (!c.valid || IsControl(c.value)) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\u%04x", c.value & 0xFFFFu);
      out += hex;
    } else {
      out += text.substr(0, c.bytes);
    }
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string Quoted(std::string_view text) { return "\"" + Escaped(text) + "\""; }

// As text, quoted only if necessary.
std::string TextValue(const std::string& value) {
  std::string escaped = Escaped(value);
  const bool plain =
      !value.empty() && escaped == value && value.find_first_of(" =") == std::string::npos;
  return plain ? escaped : "\"" + escaped + "\"";
}

}  // namespace

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  std::optional<uint64_t> left_out = 0;
  if (level > LogLevel::kDebug) {
    Limited& limits = Limits();
    MutexLock lock(limits.mu);
    left_out = limits.lines.Admit(message, std::chrono::steady_clock::now());
  }
  if (!left_out.has_value()) return;
  const bool json = g_json.load(std::memory_order_relaxed);
  const char* name = kNames[static_cast<int>(level)];
  std::string line = json ? "{\"time\":\"" + Timestamp() + "\",\"level\":\"" + name +
                                "\",\"message\":" + Quoted(message)
                          : Timestamp() + " " + name + " " + std::string(message);
  const auto add = [&line, json](const LogField& f) {
    line += json ? "," + Quoted(f.key) + ":" + Quoted(f.value)
                 : " " + std::string(f.key) + "=" + TextValue(f.value);
  };
  std::for_each(fields.begin(), fields.end(), add);
  if (*left_out > 0) add({"suppressed", *left_out});
  line += json ? "}\n" : "\n";
  // one write, so that lines of different threads do not mix
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void SetLogLevel(LogLevel level) { g_level = level; }
void SetLogJson(bool json) { g_json = json; }

Result<LogLevel> ParseLogLevel(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return InvalidArgument("log level \"" + std::string(name) +
                         "\" is none of debug, info, warning, error");
}

}  // namespace outrider
