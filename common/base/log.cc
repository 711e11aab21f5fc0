#include "common/base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "common/base/escape_text.h"
#include "common/base/file_descriptor.h"
#include "common/base/line_limiter.h"
#include "common/base/mutex.h"

namespace outrider {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<bool> g_json{false};
std::atomic<uint64_t> g_lines_lost{0};

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

// Calls a function of the system until no signal interrupts it.
template <class Call>
auto Uninterrupted(const Call& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// Whether stderr takes a line without waiting: POLLOUT of a pipe means room for PIPE_BUF bytes, but
// that of a terminal any room.
bool HasRoom() {
  pollfd room{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return Uninterrupted([&room] { return poll(&room, 1, 0); }) == 1 && (room.revents & POLLOUT) != 0;
}

// Writes what stderr has room for; returns how much, or -1: nothing, or it failed.
ssize_t WriteAtOnce(std::string_view text) {
  struct stat about {};
  if (fstat(STDERR_FILENO, &about) != 0) return -1;
  if (S_ISSOCK(about.st_mode)) {
    return Uninterrupted([text] {
      return send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    });
  }
  const auto write_to = [text](int file) {
    return Uninterrupted([text, file] { return write(file, text.data(), text.size()); });
  };
  if (S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode)) {
    // Opened once more for each line, because O_NONBLOCK of stderr itself would hold for all that
    // share it, such as the shell, and because stderr may be redirected at any time.
    const FileDescriptor own(open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (own.get() >= 0) return write_to(own.get());
    if (errno == EMFILE || errno == ENFILE) return -1;  // what logs of an overload must not wait
  }
  return HasRoom() ? write_to(STDERR_FILENO) : -1;
}

// Writes the line in one piece, so that lines do not mix, or counts it as lost.
class LineWriter {
 public:
  void Write(std::string line) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (torn_) line.insert(line.begin(), '\n');
    const ssize_t written = WriteAtOnce(line);
    if (written > 0) torn_ = written < std::ssize(line);
    if (written != std::ssize(line)) g_lines_lost.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  Mutex mu_;
  bool torn_ OUTRIDER_GUARDED_BY(mu_) = false;  // the end of the last line is missing
};

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

// As text, quoted only if necessary.
std::string TextValue(const std::string& value, size_t longest) {
  std::string escaped = EscapeText(value, longest);
  const bool plain =
      !value.empty() && escaped == value && value.find_first_of(" =") == std::string::npos;
  return plain ? escaped : "\"" + escaped + "\"";
}

// A field's number without the zeros that end its six decimals: 30, not 30.000000.
std::string WithoutLastZeros(const std::string& value) {
  if (value.find('.') == std::string::npos) return value;
  const size_t last = value.find_last_not_of('0');
  return value.substr(0, value[last] == '.' ? last : last + 1);
}

// One line of at most kMaxLogLineBytes: values are cut to what is left, and fields for which
// nothing is left are not there.
class LineBuilder {
 public:
  LineBuilder(LogLevel level, std::string_view message)
      : json_(g_json.load(std::memory_order_relaxed)) {
    const char* const name = kNames[static_cast<int>(level)];
    if (json_) {
      line_ = "{\"time\":\"" + Timestamp() + "\",\"level\":\"" + name + "\",\"message\":\"" +
              EscapeText(message, kMaxLogLineBytes / 2) + "\"";
    } else {
      line_ = Timestamp() + " " + name + " ";
      line_ += message.substr(0, kMaxLogLineBytes / 2);
    }
  }

  void Add(const LogField& field) {
    constexpr size_t kAround = sizeof R"(,"":"..."})";  // with the end of the line
    const size_t taken = line_.size() + field.key.size() + kAround;
    if (taken >= kMaxLogLineBytes) return;
    const size_t left = kMaxLogLineBytes - taken;
    if (!field.is_text && field.value.size() > left) return;
    const std::string key(field.key);
    if (!json_) {
      line_ += " " + key + "=";
      line_ += field.is_text ? TextValue(field.value, left) : WithoutLastZeros(field.value);
    } else if (field.is_text) {
      line_ += ",\"" + key + "\":\"" + EscapeText(field.value, left) + "\"";
    } else {
      line_ += ",\"" + key + "\":" + WithoutLastZeros(field.value);
    }
  }

  std::string Finish() && { return std::move(line_) + (json_ ? "}\n" : "\n"); }

 private:
  const bool json_;
  std::string line_;
};

void WriteLog(LogLevel level, std::string_view message, std::span<const LogField> fields,
              uint64_t suppressed) {
  LineBuilder line(level, message);
  for (const LogField& field : fields) line.Add(field);
  if (suppressed > 0) line.Add({"suppressed", suppressed});
  static auto* const writer = new LineWriter;  // never destroyed, as Limited
  writer->Write(std::move(line).Finish());
}

}  // namespace

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  Log(level, message, std::span(fields.begin(), fields.size()));
}

void Log(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  std::optional<uint64_t> left_out = 0;
  if (level > LogLevel::kDebug) {
    Limited& limits = Limits();
    MutexLock lock(limits.mu);
    left_out = limits.lines.Admit(message, std::chrono::steady_clock::now());
  }
  if (left_out.has_value()) WriteLog(level, message, fields, *left_out);
}

void LogUnlimited(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  WriteLog(level, message, fields, 0);
}

uint64_t LogLinesLost() { return g_lines_lost.load(std::memory_order_relaxed); }

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
