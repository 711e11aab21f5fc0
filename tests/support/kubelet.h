// Plays what a cluster does to a pod, on real processes of this machine: probes it, names it among
// the endpoints while it is ready, and ends it with a pause for balancers (preStop), SIGTERM, the
// grace period and only then SIGKILL.
//
// Owner: the test. Thread: one owner; has a thread of its own.
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
  std::string ready_line = " serving ";    // of the log, with " port=" of the probes
  std::string ending_line = " draining ";  // of the log, once SIGTERM is heard
  std::string readiness;                   // the service that readiness asks for
  std::chrono::milliseconds pre_stop = std::chrono::milliseconds(200);
  std::chrono::seconds grace = std::chrono::seconds(15);
};

class Endpoints;

class Pod {
 public:
  // Starts the process and its probes; "" for endpoints: nobody is told of it.
  Pod(PodSpec spec, Endpoints* endpoints);
  ~Pod();

  // Waits (30 s at most) until the readiness probe succeeds.
  bool AwaitReady();
  const std::string& address() const { return address_; }
  std::string Log() const { return process_->Log(); }

  struct End {
    int exit_code = -1;
    bool in_time = false;             // before the grace period was over
    bool ever_dead = false;           // a liveness probe failed while it ran
    bool ready_while_ending = false;  // readiness probes went on to succeed
  };
  // As the kubelet: out of the endpoints, preStop, SIGTERM, grace period, SIGKILL.
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

// The addresses of pods that are ready and not ending, as a file for `file:` targets.
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
