// outrider-drafter with a paced model: takes its flags, and OUTRIDER_PACED (paced_loader.h).
#include <cstdio>

#include "common/base/log.h"
#include "common/base/signals.h"
#include "drafter/options.h"
#include "drafter/serve.h"
#include "tests/support/paced_loader.h"

int main(int argc, char** argv) {
  outrider::DrafterOptions options;
  if (const auto code = outrider::ParseDrafterOptions(argc, argv, &options)) return *code;
  outrider::SetLogLevel(options.service.log_level);
  outrider::IgnoreBrokenPipes();
  const outrider::StopOnSignal signals;  // before any thread starts
  const auto code = outrider::Serve(options, signals, outrider::testing::PacedLoader());
  if (!code.ok()) std::fprintf(stderr, "paced_drafter: %s\n", code.status().ToString().c_str());
  return code.ok() ? *code : 1;
}
