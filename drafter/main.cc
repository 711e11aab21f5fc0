// outrider-drafter: parses flags and serves.
#include <cstdio>

#include "common/base/file_limit.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/rpc/library_logs.h"
#include "drafter/options.h"
#include "drafter/serve.h"

int main(int argc, char** argv) {
  outrider::DrafterOptions options;
  if (const auto code = outrider::ParseDrafterOptions(argc, argv, &options)) return *code;
  outrider::SetLogLevel(options.service.log_level);
  outrider::SetLogJson(options.service.log_json);
  outrider::RaiseFileLimit();
  outrider::TakeLibraryLogs();
  outrider::IgnoreBrokenPipes();
  const outrider::StopOnSignal signals;  // before any thread starts
  const outrider::Result<int> code = outrider::Serve(options, signals);
  if (!code.ok()) {
    std::fprintf(stderr, "outrider-drafter: %s\n", code.status().ToString().c_str());
    return 1;
  }
  return *code;
}
