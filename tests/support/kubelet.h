// Treats real processes of this machine as a cluster treats pods: probes them, lists them among the
// endpoints while they are ready, and terminates them with a pause for load balancers (preStop),
// SIGTERM, the grace period and only then SIGKILL.
//
// Owner: the test. Thread: one owner; runs a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "tests/support/process.h"

namespace outrider::testing {

struct PodSpec {
  std::string name;
  std::vector<std::string> argv;
  std::string log_path;
  std::string ready_line = " serving ";    // in the log, with " port=" of the probes
  std::string ending_line = " draining ";  // in the log, once SIGTERM was received
  std::string readiness;                   // the service whose health is readiness
  std::chrono::milliseconds pre_stop = std::chrono::milliseconds(200);
  std::chrono::seconds grace = std::chrono::seconds(15);
};

class Endpoints;

class Pod {
 public:
  // Starts the process and its probes; with nullptr for endpoints, it is not listed.
  Pod(PodSpec spec, Endpoints* endpoints);
  ~Pod();

  // Waits (at most 30 s) until the readiness probe succeeds.
  bool AwaitReady();
  const std::string& address() const { return address_; }
  std::string Log() const { return process_->Log(); }

  struct End {
    int exit_code = -1;
    bool in_time = false;             // before the end of the grace period
    bool ever_dead = false;           // a liveness probe failed while it ran
    bool ready_while_ending = false;  // readiness probes kept succeeding
  };
  // Like the kubelet: removal from the endpoints, preStop, SIGTERM, grace period, SIGKILL.
  End Terminate();

 private:
  void ProbeLoop();

  const PodSpec spec_;
  Endpoints* const endpoints_;
  std::unique_ptr<Process> process_;
  std::string address_;
  std::atomic<bool> ready_ = false;
  std::atomic<bool> terminating_ = false;
  std::atomic<bool> stop_ = false;
  std::thread prober_;
};

// The addresses of pods that are ready and not terminating, as a file for `file:` targets.
//
// Thread: any.
class Endpoints {
 public:
  explicit Endpoints(std::string path);
  const std::string& path() const { return path_; }
  void Set(const std::string& address, bool ready) OUTRIDER_EXCLUDES(mu_);

 private:
  void Write() OUTRIDER_REQUIRES(mu_);

  const std::string path_;
  Mutex mu_;
  std::vector<std::string> ready_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider::testing
