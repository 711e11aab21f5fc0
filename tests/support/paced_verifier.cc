// outrider-verifier with a paced model: takes its flags, and OUTRIDER_PACED (paced_loader.h).
#include <cstdio>

#include "common/base/log.h"
#include "common/base/signals.h"
#include "tests/support/paced_loader.h"
#include "verifier/options.h"
#include "verifier/serve.h"

int main(int argc, char** argv) {
  outrider::VerifierOptions options;
  if (const auto code = outrider::ParseVerifierOptions(argc, argv, &options)) return *code;
  outrider::SetLogLevel(options.service.log_level);
  outrider::IgnoreBrokenPipes();
  const outrider::StopOnSignal signals;  // before any thread starts
  const outrider::Status status =
      outrider::Serve(options, signals, outrider::testing::PacedLoader());
  if (!status.ok()) std::fprintf(stderr, "paced_verifier: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
