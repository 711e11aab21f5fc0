#include "client/command_line.h"

#include <variant>

#include "client/bench.h"
#include "client/flags.h"
#include "client/generate.h"
#include "client/plan_command.h"
#include "client/sibling_program.h"
#include "client/status.h"
#include "client/train/train_head.h"

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

}  // namespace

int RunCommandLine(int argc, const char* const* argv, const Console& console) {
  const auto parsed = ParseFlags(argc, argv, console);
  if (const int* wrong = std::get_if<int>(&parsed)) return *wrong;
  const Result<int> exit_code = std::visit(
      [&](const auto& options) { return Run(options, console); }, std::get<Command>(parsed));
  if (exit_code.ok()) return *exit_code;
  console.err << "error: " << exit_code.status().ToString() << std::endl;
  return 1;
}

}  // namespace outrider
