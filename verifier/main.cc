// outrider-verifier: parses flags and serves.
#include <cstdio>

#include "common/base/file_limit.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/rpc/library_logs.h"
#include "verifier/options.h"
#include "verifier/serve.h"

int main(int argc, char** argv) {
  outrider::VerifierOptions options;
  if (const auto code = outrider::ParseVerifierOptions(argc, argv, &options)) return *code;
  outrider::SetLogLevel(options.service.log_level);
  outrider::SetLogJson(options.service.log_json);
  outrider::RaiseFileLimit();
  outrider::TakeLibraryLogs();
  outrider::IgnoreBrokenPipes();
  const outrider::StopOnSignal signals;  // before any thread starts
  if (const outrider::Status status = outrider::Serve(options, signals); !status.ok()) {
    std::fprintf(stderr, "outrider-verifier: %s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
