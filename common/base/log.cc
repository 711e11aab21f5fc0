#include "common/base/log.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace outrider {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<bool> g_json{false};

constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};

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

// Quotes and escapes: a log line stays one line, whatever a peer put into a name.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\u%04x", static_cast<unsigned>(c));
      out += hex;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool NeedsQuotes(std::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '=' || static_cast<unsigned char>(c) <= 0x20) return true;
  }
  return false;
}

}  // namespace

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  const char* name = kNames[static_cast<int>(level)];
  std::string line;
  if (g_json.load(std::memory_order_relaxed)) {
    line = "{\"time\":\"" + Timestamp() + "\",\"level\":\"" + name +
           "\",\"message\":" + Quoted(message);
    for (const LogField& f : fields) line += "," + Quoted(f.key) + ":" + Quoted(f.value);
    line += "}\n";
  } else {
    line = Timestamp() + " " + name + " " + std::string(message);
    for (const LogField& f : fields) {
      line += " " + std::string(f.key) + "=";
      line += NeedsQuotes(f.value) ? Quoted(f.value) : f.value;
    }
    line += "\n";
  }
  std::fwrite(line.data(), 1, line.size(), stderr);  // one write: lines of threads do not mix
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
