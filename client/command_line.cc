#include "client/command_line.h"

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "client/bench.h"
#include "client/flags.h"
#include "client/generate.h"
#include "client/plan_command.h"
#include "client/sibling_program.h"
#include "client/status.h"
#include "client/train/train_head.h"
#include "common/command_line/command_line.h"

namespace outrider {
namespace {

// The exit code of a command that has only 0 and 1.
Result<int> ExitCodeOf(const Status& status) {
  if (!status.ok()) return status;
  return 0;
}

Result<int> Run(const GenerateOptions& options, const Console& console) {
  return RunGenerate(options, console);
}
Result<int> Run(const BenchOptions& options, const Console& console) {
  return RunBench(options, console);
}
Result<int> Run(const StatusOptions& options, const Console& console) {
  return ExitCodeOf(RunStatus(options, console));
}
Result<int> Run(const SimulateCommand& command, const Console& /*console*/) {
  return ExecSibling("outrider-simulate", command.arguments);
}
Result<int> Run(const PlanFlags& flags, const Console& console) {
  return ExitCodeOf(RunPlan(flags, console));
}
Result<int> Run(const TrainHeadOptions& options, const Console& console) {
  return ExitCodeOf(RunTrainHead(options, console));
}

// Fields of the gRPC contract that begin a verifier's messages, and the flags that set them.
constexpr std::pair<std::string_view, std::string_view> kFlagsOfFields[] = {
    {"stop.max_tokens", "--max-tokens"},
    {"stop.stop_strings", "--stop"},
    {"stop.ignore_eos", "--ignore-eos"},
    {"speculation.rule", "--rule"},
    {"speculation.draft_length", "--draft-length"},
    {"speculation.paths", "--paths"},
    {"speculation.tree", "--tree"},
    {"speculation.stop.threshold", "--stop-threshold"},
    {"speculation.stop", "--stop-rule"}};

// `message` with the flag instead of the field that it complains of ("field: what is wrong").
std::string WithFlags(std::string message) {
  for (const auto& [field, flag] : kFlagsOfFields) {
    const std::string named = std::string(field) + ":";
    const size_t at = message.find(named);
    if (at == std::string::npos || (at > 0 && message[at - 1] != ' ')) continue;
    message.replace(at, field.size(), flag);
  }
  return message;
}

int ParseAndRun(int argc, const char* const* argv, const Console& console) {
  const auto parsed = ParseFlags(argc, argv, console);
  if (const int* wrong = std::get_if<int>(&parsed)) return *wrong;
  const Result<int> exit_code = std::visit(
      [&](const auto& options) { return Run(options, console); }, std::get<Command>(parsed));
  if (exit_code.ok()) return *exit_code;
  console.err << "error: " << WithFlags(exit_code.status().ToString()) << std::endl;
  return 1;
}

}  // namespace

int RunCommandLine(int argc, const char* const* argv, const Console& console) {
  return CheckWritten(ParseAndRun(argc, argv, console), console.out, console.err);
}

}  // namespace outrider
