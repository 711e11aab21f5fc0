// delay_proxy --to HOST:PORT [--listen 127.0.0.1:0] [--rtt-ms 0] [--loss-percent 0]
//     [--stall-ms 200]
// Runs a DelayProxy until SIGTERM or SIGINT. Prints "port=N" when it listens; delay_proxy.h
// explains the flags.
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/support/delay_proxy.h"

namespace outrider::testing {
namespace {

Duration Milliseconds(const std::string& text) {
  return std::chrono::microseconds(static_cast<int64_t>(1e3 * std::atof(text.c_str())));
}

Result<DelayProxyOptions> Parse(int argc, char** argv) {
  DelayProxyOptions options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) return InvalidArgument("no value for " + flag);
    const std::string value = argv[i + 1];
    if (flag == "--to") {
      options.to = value;
    } else if (flag == "--listen") {
      options.listen = value;
    } else if (flag == "--rtt-ms") {
      options.rtt = Milliseconds(value);
    } else if (flag == "--loss-percent") {
      options.loss = std::atof(value.c_str()) / 100;
    } else if (flag == "--stall-ms") {
      options.stall = Milliseconds(value);
    } else {
      return InvalidArgument("no flag " + flag);
    }
  }
  if (options.to.empty()) return InvalidArgument("--to is missing");
  return options;
}

Status Run(int argc, char** argv) {
  OUTRIDER_ASSIGN(const DelayProxyOptions options, Parse(argc, argv));
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before the proxy's thread, which inherits it
  OUTRIDER_ASSIGN(const auto proxy, DelayProxy::Start(options));
  std::printf("port=%d\n", proxy->port());
  std::fflush(stdout);
  int signal;
  sigwait(&ends, &signal);
  return Status();
}

}  // namespace
}  // namespace outrider::testing

int main(int argc, char** argv) {
  const outrider::Status status = outrider::testing::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "delay_proxy: %s\n", status.ToString().c_str());
  return 1;
}
