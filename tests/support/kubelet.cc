#include "tests/support/kubelet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "tests/support/health_probe.h"

namespace outrider::testing {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr auto kProbePeriod = std::chrono::milliseconds(20);
constexpr auto kProbeTimeout = std::chrono::seconds(5);
// Readiness ends shortly after the log line that announces the drain: one probe that still succeeds
// is not an error, a second one is.
constexpr int kReadyProbesAllowed = 1;

SteadyTime Now() { return std::chrono::steady_clock::now(); }

}  // namespace

Endpoints::Endpoints(std::string path) : path_(std::move(path)) {
  MutexLock lock(mu_);
  Write();
}

void Endpoints::Set(const std::string& address, bool ready) {
  MutexLock lock(mu_);
  const auto it = std::find(ready_.begin(), ready_.end(), address);
  if ((it != ready_.end()) == ready) return;
  if (ready) {
    ready_.push_back(address);
  } else {
    ready_.erase(it);
  }
  Write();
}

void Endpoints::Write() {
  // Replaced atomically, so that nobody reads half a list.
  const std::string next = path_ + ".next";
  {
    std::ofstream out(next);
    for (const std::string& address : ready_) out << address << "\n";
  }
  if (std::rename(next.c_str(), path_.c_str()) != 0) ADD_FAILURE() << "cannot write " << path_;
}

Pod::Pod(PodSpec spec, Endpoints* endpoints)
    : spec_(std::move(spec)),
      endpoints_(endpoints),
      process_(Process::Start(spec_.argv, spec_.log_path)) {
  const std::string line = process_->AwaitLine(spec_.ready_line);
  const size_t pos = line.find(" port=");
  if (pos == std::string::npos) {
    ADD_FAILURE() << spec_.name << ": " << process_->Log();
    return;
  }
  address_ = "127.0.0.1:" + std::to_string(std::atoi(line.c_str() + pos + 6));
  prober_ = std::thread([this] { ProbeLoop(); });
}

Pod::~Pod() {
  stop_ = true;
  if (prober_.joinable()) prober_.join();
  if (endpoints_ != nullptr && !address_.empty()) endpoints_->Set(address_, false);
}

void Pod::ProbeLoop() {
  while (!stop_ && !terminating_) {
    const bool ready = Probe(address_, spec_.readiness, kProbeTimeout) == Health::kServing;
    ready_ = ready;
    if (endpoints_ != nullptr && !terminating_) endpoints_->Set(address_, ready);
    std::this_thread::sleep_for(kProbePeriod);
  }
}

bool Pod::AwaitReady() {
  const SteadyTime until = Now() + std::chrono::seconds(30);
  while (!ready_) {
    if (Now() >= until || !process_->running()) return false;
    std::this_thread::sleep_for(kProbePeriod / 4);
  }
  return true;
}

Pod::End Pod::Terminate() {
  terminating_ = true;
  if (prober_.joinable()) prober_.join();
  if (endpoints_ != nullptr) endpoints_->Set(address_, false);
  const SteadyTime begin = Now();
  std::this_thread::sleep_for(spec_.pre_stop);  // counts against the grace period, as in Kubernetes
  process_->Signal(SIGTERM);
  End end;
  int ready_probes = 0;
  while (process_->running()) {
    if (Now() - begin >= spec_.grace) {
      process_->Signal(SIGKILL);
      end.exit_code = process_->Wait();
      return end;
    }
    const bool said = Log().find(spec_.ending_line) != std::string::npos;
    const Health readiness = Probe(address_, spec_.readiness, kProbeTimeout);
    const Health liveness = Probe(address_, "", kProbeTimeout);
    // Between its last answer and its exit a process is unreachable, which is not a failure.
    if (liveness == Health::kNotServing) end.ever_dead = true;
    if (said && readiness == Health::kServing) ++ready_probes;
    end.ready_while_ending = ready_probes > kReadyProbesAllowed;
    std::this_thread::sleep_for(kProbePeriod / 4);
  }
  end.in_time = true;
  end.exit_code = process_->Wait();
  return end;
}

}  // namespace outrider::testing
