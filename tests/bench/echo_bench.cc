// The cost of a message round trip in gRPC alone: two processes on one machine, the drafting
// protocol's stream, a short verdict one way and a short draft the other, one thread on each side.
// For round_bench.py, which compares a round with it.
//
//   echo_bench [--round-trips N] [--client-core C] [--server-core C]
//
// Prints one line of JSON: the median and the 90th percentile in seconds.

#include <grpcpp/grpcpp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "outrider/v1/drafting.grpc.pb.h"

namespace outrider {
namespace {

class Echo final : public v1::Drafting::Service {
 public:
  grpc::Status Attach(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::FromVerifier, v1::FromDrafter>* stream) override {
    v1::FromDrafter draft;
    v1::FromVerifier verdict;
    v1::Verdict* const one = verdict.mutable_verdicts()->add_verdicts();
    one->set_session(1);
    one->add_next(7);
    while (stream->Read(&draft)) stream->Write(verdict);
    return grpc::Status::OK;
  }
};

// Pins all threads that start from here on.
void Pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Runs in a separate process: writes its port to `pipe` and serves until it is killed.
[[noreturn]] void Serve(int pipe, int core) {
  if (core >= 0) Pin(core);
  Echo service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (write(pipe, &port, sizeof port) != sizeof port) std::_Exit(1);
  server->Wait();
  std::_Exit(0);
}

std::vector<double> Measure(int port, int round_trips) {
  const auto stub = v1::Drafting::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  v1::FromDrafter draft;
  v1::Draft* const one = draft.mutable_drafts()->add_drafts();
  for (uint32_t token = 0; token < 4; ++token) one->add_token_ids(token);
  v1::FromVerifier verdict;
  std::vector<double> seconds;
  const SteadyClock clock;
  constexpr int kWarm = 100;
  for (int i = 0; i < kWarm + round_trips; ++i) {
    const Time start = clock.Now();
    if (!stream->Write(draft) || !stream->Read(&verdict)) break;
    if (i >= kWarm) seconds.push_back(Seconds(clock.Now() - start));
  }
  stream->WritesDone();
  stream->Finish();
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

int Main(int argc, char** argv) {
  int round_trips = 2000, client_core = -1, server_core = -1;
  CLI::App app("What a message there and back costs in gRPC alone");
  app.add_option("--round-trips", round_trips)->check(CLI::Range(1, 1000000));
  app.add_option("--client-core", client_core);
  app.add_option("--server-core", server_core);
  CLI11_PARSE(app, argc, argv);

  int ends[2];
  if (pipe(ends) != 0) return 1;
  // Before this process has threads.
  const pid_t server = fork();
  if (server < 0) return 1;
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    Serve(ends[1], server_core);
  }
  close(ends[1]);
  if (client_core >= 0) Pin(client_core);
  int port = 0;
  const bool told = read(ends[0], &port, sizeof port) == sizeof port;
  const std::vector<double> seconds = told ? Measure(port, round_trips) : std::vector<double>();
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  if (seconds.empty()) {
    std::fprintf(stderr, "echo_bench: no answer\n");
    return 1;
  }
  const nlohmann::json report = {{"median", seconds[seconds.size() / 2]},
                                 {"p90", seconds[seconds.size() * 9 / 10]}};
  std::printf("%s\n", report.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::Main(argc, argv); }
