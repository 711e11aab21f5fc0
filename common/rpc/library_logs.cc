#include "common/rpc/library_logs.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <string_view>

#include "common/base/log.h"

namespace outrider {
namespace {

thread_local std::string* g_said = nullptr;

// The message is the position in the library, so that each position has its own limit.
void LogAs(LogLevel level, std::string_view library, std::string_view file, int line,
           std::string_view text) {
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  std::string message(library);
  message.append(" ").append(file).append(":").append(std::to_string(line));
  Log(level, message, {{"text", text}});
}

void OnGrpc(gpr_log_func_args* args) {
  const LogLevel level = args->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kError
                         : args->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  LogAs(level, "gRPC", args->file, args->line, args->message);
}

void OnProtobuf(google::protobuf::LogLevel severity, const char* file, int line,
                const std::string& text) {
  if (g_said != nullptr) {
    *g_said += (g_said->empty() ? "" : "; ") + text;
    return;
  }
  const LogLevel level = severity >= google::protobuf::LOGLEVEL_ERROR     ? LogLevel::kError
                         : severity == google::protobuf::LOGLEVEL_WARNING ? LogLevel::kWarning
                                                                          : LogLevel::kInfo;
  LogAs(level, "protobuf", file, line, text);
}

}  // namespace

void TakeLibraryLogs() {
  gpr_set_log_function(OnGrpc);
  google::protobuf::SetLogHandler(OnProtobuf);
}

ProtobufWords::ProtobufWords(std::string* said) { g_said = said; }
ProtobufWords::~ProtobufWords() { g_said = nullptr; }

}  // namespace outrider
