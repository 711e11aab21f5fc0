// Keeps a drafter attached to one verifier: dials, says hello, and dials again for as long as it
// lives and the verifier is wanted, whatever happens to the verifier.
//
// Thread: one owner; has a thread of its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/tls_files.h"
#include "common/spec/drafter_hello.h"
#include "drafter/rpc/attach_stream.h"

namespace outrider {

struct VerifierLinkOptions {
  std::string address;    // "host:port"
  std::string authority;  // as in ChannelOptions
  DrafterHello hello;
  // This drafter's, if hello.translates; else nullptr.
  std::shared_ptr<const DrafterVocabulary> vocabulary;
  std::shared_ptr<TlsFiles> tls;  // looked at with every dial; null: plaintext
  std::string tls_server_name;    // as in ChannelOptions
  std::string token_file;         // read with every dial; "": no token
  // The longest pause before the next dial.
  Duration max_pause = std::chrono::seconds(2);
  // Before the next dial to a verifier that refused: it has to be configured anew first.
  Duration refused_pause = std::chrono::seconds(10);
};

class GrpcVerifierLink {
 public:
  // Starts to dial. `events` and `observer` must outlive the link.
  GrpcVerifierLink(const VerifierLinkOptions& options, LinkEvents* events, LinkObserver* observer);
  ~GrpcVerifierLink();

  // A verifier that is not wanted any more may finish the sessions that it has with us; then, or
  // when the stream breaks, the link is over. Until then it can be wanted again: false when it is
  // too late for that.
  bool SetWanted(bool wanted) OUTRIDER_EXCLUDES(mu_);
  // Over: it will not dial again.
  bool over() OUTRIDER_EXCLUDES(mu_);

  // Closes our half of the stream and dials no more.
  void Close() OUTRIDER_EXCLUDES(mu_);
  // Close; from then on the verifier has a second to end the stream.
  void Stop() OUTRIDER_EXCLUDES(mu_);

 private:
  void Run();
  // Channel and token as the files say now.
  void Renew();
  // The next attachment; null when the link is over.
  std::shared_ptr<AttachStream> Dial() OUTRIDER_EXCLUDES(mu_);
  // Waits, unless there is no next dial.
  void Pause(Duration pause) OUTRIDER_EXCLUDES(mu_);

  const VerifierLinkOptions options_;
  LinkEvents* const events_;
  LinkObserver* const observer_;

  // Of the thread that dials.
  std::shared_ptr<const TlsMaterial> tls_material_;  // stub_'s
  std::unique_ptr<v1::Drafting::Stub> stub_;
  std::string token_;

  Mutex mu_;
  std::condition_variable changed_;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  Time closed_ OUTRIDER_GUARDED_BY(mu_);  // when it began to stop
  bool wanted_ OUTRIDER_GUARDED_BY(mu_) = true;
  bool over_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::shared_ptr<AttachStream> stream_ OUTRIDER_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace outrider
