// outrider-verifier: parses flags and serves.
#include <cstdio>
#include <string_view>

#include "common/base/file_limit.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/rpc/library_logs.h"
#include "verifier/options.h"
#include "verifier/serve.h"

namespace outrider {
namespace {

int Ended(const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "outrider-verifier: %s\n", status.ToString().c_str());
  return 1;
}

// A process of --devices: argv is that of the verifier, after "--follow" and its value.
int FollowMain(int argc, char** argv) {
  EndWithLeader();
  const Result<FollowArguments> arguments = ParseFollow(argv[2]);
  if (!arguments.ok()) return Ended(arguments.status());
  argv[2] = argv[0];
  VerifierOptions options;
  if (const auto code = ParseVerifierOptions(argc - 2, argv + 2, &options)) return *code;
  SetLogLevel(LogLevel::kError);  // the first device's process tells about all of them
  SetLogJson(options.service.log_json);
  return Ended(
      FollowServedModel(options.service, options.engine.scheduler.token_budget, *arguments));
}

int Main(int argc, char** argv) {
  VerifierOptions options;
  if (const auto code = ParseVerifierOptions(argc, argv, &options)) return *code;
  SetLogLevel(options.service.log_level);
  SetLogJson(options.service.log_json);
  RaiseFileLimit();
  TakeLibraryLogs();
  IgnoreBrokenPipes();
  const StopOnSignal signals;  // before any thread starts
  return Ended(Serve(options, signals));
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  const bool follows = argc > 2 && std::string_view(argv[1]) == outrider::kFollowFlag;
  return follows ? outrider::FollowMain(argc, argv) : outrider::Main(argc, argv);
}
