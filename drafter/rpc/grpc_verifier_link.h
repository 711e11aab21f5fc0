// Keeps a drafter attached to one verifier: dials, says hello, and dials again as long as the
// verifier is wanted, whatever happens to it.
//
// Thread: one owner; has a thread of its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "drafter/rpc/attach_stream.h"
#include "drafter/rpc/verifier_dialer.h"

namespace outrider {

struct VerifierLinkOptions {
  VerifierDialOptions dial;
  // The longest pause before the next dial.
  Duration max_pause = std::chrono::seconds(2);
  // The longest pause after a refusal, which lasts until the configuration changes or there is
  // room. It is longer than max_pause, as a full verifier may have hundreds to refuse again and
  // again, each with a handshake.
  Duration max_refused_pause = std::chrono::seconds(10);
};

class GrpcVerifierLink {
 public:
  // Starts dialling. `events` and `observer` must outlive the link.
  GrpcVerifierLink(const VerifierLinkOptions& options, LinkEvents* events, LinkObserver* observer);
  ~GrpcVerifierLink();

  // A verifier that is no longer wanted may finish its sessions with us; then, or when the stream
  // breaks, the link is over. Until then, or Close, it can be wanted again: returns false if it is
  // too late.
  bool SetWanted(bool wanted) OUTRIDER_EXCLUDES(mu_);
  // Whether the link is over and will not dial again.
  bool over() OUTRIDER_EXCLUDES(mu_);

  // Closes our half of the stream and stops dialling.
  void Close() OUTRIDER_EXCLUDES(mu_);
  // Calls Close; then the verifier has a second to end the stream.
  void Stop() OUTRIDER_EXCLUDES(mu_);

 private:
  void Run();
  // Makes the next attachment; null if the link is over.
  std::shared_ptr<AttachStream> Dial() OUTRIDER_EXCLUDES(mu_);
  // Waits, unless there is no next dial.
  void Pause(Duration pause) OUTRIDER_EXCLUDES(mu_);

  const VerifierLinkOptions options_;
  LinkEvents* const events_;
  LinkObserver* const observer_;

  VerifierDialer dialer_;  // only used by the dialling thread

  Mutex mu_;
  std::condition_variable changed_;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  Time closed_ OUTRIDER_GUARDED_BY(mu_);  // when stopping began
  bool wanted_ OUTRIDER_GUARDED_BY(mu_) = true;
  bool over_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::shared_ptr<AttachStream> stream_ OUTRIDER_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace outrider
