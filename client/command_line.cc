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

Status Run(const GenerateOptions& options, const Console& console) {
  return RunGenerate(options, console);
}
Status Run(const BenchOptions& options, const Console& console) {
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

}  // namespace

int RunCommandLine(int argc, const char* const* argv, const Console& console) {
  const auto parsed = ParseFlags(argc, argv, console);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  const Status status = std::visit([&](const auto& options) { return Run(options, console); },
                                   std::get<Command>(parsed));
  if (status.ok()) return 0;
  console.err << "error: " << status.ToString() << std::endl;
  return 1;
}

}  // namespace outrider
