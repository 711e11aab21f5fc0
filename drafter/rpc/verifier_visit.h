// A short stream to a verifier that this drafter does not serve, to learn its zone and how many
// drafters it wants. The verifier answers and ends the stream. One that speaks a protocol without
// demand welcomes us as any drafter, and may open sessions before it reads that we have closed our
// half: these go on without a drafter.
//
// Thread: one owner; has a thread of its own. The result is reported from there, before over().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/spec/drafter_demand.h"
#include "common/spec/drafter_hello.h"
#include "drafter/rpc/attach_stream.h"
#include "drafter/rpc/verifier_dialer.h"

namespace outrider {

struct VisitResult {
  Status end;                             // of the stream
  std::optional<DrafterWelcome> welcome;  // nullopt: nobody answered, or it refused
  std::optional<DrafterDemand> demand;    // nullopt: it speaks an older protocol
};

class VerifierVisit {
 public:
  using OnResult = std::function<void(const std::string& address, const VisitResult& result)>;

  // Dials at once. `on_result` is called once, and must not block.
  VerifierVisit(const VerifierDialOptions& options, OnResult on_result);
  // Ends the visit.
  ~VerifierVisit();

  bool over() const { return over_; }

 private:
  class Recorder;

  void Run();

  const VerifierDialOptions options_;
  const OnResult on_result_;
  std::atomic<bool> over_ = false;
  Mutex mu_;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::shared_ptr<AttachStream> stream_ OUTRIDER_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace outrider
