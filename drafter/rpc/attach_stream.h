// One attachment to one verifier: the Attach call from Hello to its end. Received messages go to
// the loop; what the loop sends waits in a queue, because gRPC takes one write at a time (the
// peer's answer may be read before OnWriteDone of the message that it answers).
//
// Owner: the dialling link, which keeps it until WaitForEnd has returned; the loop holds it, too
// (as a VerifierLink). After the end every call is ignored. The call itself holds no reference: the
// last reference to a stream releases its channel, and the last channel of a process joins gRPC's
// callback threads, which one of these threads cannot do. gRPC 1.51 does not notice this: it
// deletes what its thread still uses, and the process aborts at exit
// (https://github.com/grpc/grpc/pull/32584).
// Thread: any.
// If the verifier does not read, or the loop's inbox is full, the call is cancelled. If it sends
// faster than the loop takes, its stream is read no faster: a flood fills its own connection, not
// the inbox that all verifiers share. A stream that is not read ends once the loop has handled
// enough of what waits, so links are stopped before the loop.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/incoming.h"
#include "common/spec/drafter_demand.h"
#include "common/spec/drafter_hello.h"
#include "drafter/propose/verifier_link.h"
#include "outrider/v1/drafting.grpc.pb.h"

namespace outrider {

// Called from gRPC's threads; must not block.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  virtual void OnAttached(const std::string& address, const DrafterWelcome& welcome) = 0;
  virtual void OnDetached(const std::string& address) = 0;
  // An attachment ended that was still wanted; it is dialled again.
  virtual void OnLost(const std::string& address) = 0;
  // What the attached verifier wants now.
  virtual void OnDemand(const std::string& address, const DrafterDemand& demand) = 0;
  // The verifier refuses this drafter: it does not fit (FAILED_PRECONDITION), is not allowed
  // (UNAUTHENTICATED, PERMISSION_DENIED), or the verifier is full (RESOURCE_EXHAUSTED).
  virtual void OnRefused(const std::string& address, const Status& why) = 0;
};

// Leaves the verifier's messages unparsed, and takes the drafter's as bytes, unlike
// v1::Drafting::Stub.
using AttachStub = grpc::TemplatedGenericStub<grpc::ByteBuffer, Incoming<v1::FromVerifier>>;

class AttachStream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, Incoming<v1::FromVerifier>>,
      public VerifierLink,
      public std::enable_shared_from_this<AttachStream> {
 public:
  // Says hello, with `token` as the bearer token, if any. `events` and `observer` must outlive the
  // call's end; `address` is for messages. `own`: this drafter's vocabulary, for verifiers with
  // another one, if hello.translates; else nullptr.
  static std::shared_ptr<AttachStream> Start(AttachStub& stub, std::string address,
                                             uint64_t connection, const std::string& token,
                                             const DrafterHello& hello,
                                             std::shared_ptr<const DrafterVocabulary> own,
                                             LinkEvents* events, LinkObserver* observer);
  ~AttachStream() override;

  void SendDrafts(std::vector<DraftPart> drafts) override;
  void SendLoad(const DrafterLoad& load) override;

  // Takes no more messages, sends what waits, then closes our half; the verifier ends the call.
  void Close() override OUTRIDER_EXCLUDES(mu_);
  // Whether the verifier is still to be served. The loop is told (WantedEvent) once the verifier
  // has welcomed us. Before that there are no sessions to wait for, and a verifier that never
  // answers would keep the stream for good, so an unwanted one is cancelled.
  void SetWanted(bool wanted) OUTRIDER_EXCLUDES(mu_);
  void Cancel() { context_.TryCancel(); }
  bool was_welcomed() OUTRIDER_EXCLUDES(mu_);
  // Waits for the end of the call and returns its status; nullopt if `until` comes first.
  std::optional<Status> WaitForEnd(std::optional<Time> until) OUTRIDER_EXCLUDES(mu_);

 private:
  AttachStream(std::string address, uint64_t connection,
               std::shared_ptr<const DrafterVocabulary> own, LinkEvents* events,
               LinkObserver* observer);

  void OnReadDone(bool ok) override OUTRIDER_EXCLUDES(mu_);
  void OnWriteDone(bool ok) override OUTRIDER_EXCLUDES(mu_);
  void OnDone(const grpc::Status& status) override OUTRIDER_EXCLUDES(mu_);

  void Send(const v1::FromDrafter& message) OUTRIDER_EXCLUDES(mu_);
  // Handles what was read, and reads on.
  void HandleAndReadOn(const Result<v1::FromVerifier>& wire);
  // Reads the next message, now or when there is room for it.
  void Read() OUTRIDER_EXCLUDES(mu_);
  // An object that lasts as long as `wire` waits for the loop.
  std::shared_ptr<void> TakeRoom(const v1::FromVerifier& wire) OUTRIDER_EXCLUDES(mu_);
  // The loop has handled messages that took `bytes`.
  void ReturnRoom(size_t bytes) OUTRIDER_EXCLUDES(mu_);
  Status Handle(const v1::FromVerifier& wire);
  // Compares the verifier's vocabulary with ours, and sends the result.
  Status Translate(const v1::Vocabulary& wire);

  const std::string address_;
  const uint64_t connection_;
  const std::shared_ptr<const DrafterVocabulary> own_;
  LinkEvents* const events_;
  LinkObserver* const observer_;
  grpc::ClientContext context_;

  // Compares vocabularies, a fifth of a second's work that gRPC's threads, which serve all streams,
  // must not do. Nothing is read meanwhile, so the call does not end before it is done.
  std::thread translator_;

  // Used only by OnReadDone, translator_ and OnDone, which follow one another.
  Incoming<v1::FromVerifier> incoming_;
  bool has_vocabulary_ = false;                      // one has been read
  std::shared_ptr<const VocabularyMap> vocabulary_;  // nullptr: the verifier's is ours
  bool welcomed_ = false;
  Status broken_;  // why we cancelled the call

  Mutex mu_;
  std::condition_variable ended_;
  std::deque<grpc::ByteBuffer> queue_ OUTRIDER_GUARDED_BY(mu_);  // front: in flight
  size_t queued_bytes_ OUTRIDER_GUARDED_BY(mu_) = 0;
  bool closing_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool wanted_ OUTRIDER_GUARDED_BY(mu_) = true;
  bool told_welcome_ OUTRIDER_GUARDED_BY(mu_) = false;  // the loop knows of the connection
  size_t waiting_bytes_ OUTRIDER_GUARDED_BY(mu_) = 0;   // of messages that wait for the loop
  bool waits_for_room_ OUTRIDER_GUARDED_BY(mu_) = false;
  // No write may be started from outside reactions any more: the call may end at any moment.
  bool ending_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::optional<Status> end_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
