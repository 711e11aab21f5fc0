#include "client/command_line.h"

#include <variant>

#include "client/bench.h"
#include "client/flags.h"
#include "client/generate.h"
#include "client/plan_command.h"
#include "client/simulate_command.h"
#include "client/status.h"
#include "client/train/train_head.h"

namespace outrider {
namespace {

Result<int> Run(const GenerateOptions& options, const Console& console) {
  return RunGenerate(options, console);
}
Result<int> Run(const BenchOptions& options, const Console& console) {
  return RunBench(options, console);
}
Status Run(const StatusOptions& options, const Console& console) {
  return RunStatus(options, console);
}
Status Run(const SimulateFlags& flags, const Console& console) {
  return RunSimulateCommand(flags, console);
}
Status Run(const SimulateControlFlags& flags, const Console& console) {
  return RunSimulateControlCommand(flags, console);
}
Status Run(const PlanFlags& flags, const Console& console) { return RunPlan(flags, console); }
Status Run(const TrainHeadOptions& options, const Console& console) {
  return RunTrainHead(options, console);
}

int ExitCodeOf(const Result<int>& result) { return *result; }
int ExitCodeOf(const Status& /*ok*/) { return 0; }

const Status& StatusOf(const Result<int>& result) { return result.status(); }
const Status& StatusOf(const Status& status) { return status; }

}  // namespace

int RunCommandLine(int argc, const char* const* argv, const Console& console) {
  const auto parsed = ParseFlags(argc, argv, console);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  return std::visit(
      [&](const auto& options) {
        const auto result = Run(options, console);
        if (result.ok()) return ExitCodeOf(result);
        console.err << "error: " << StatusOf(result).ToString() << std::endl;
        return 1;
      },
      std::get<Command>(parsed));
}

}  // namespace outrider
