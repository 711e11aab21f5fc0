// The write half of a server stream. It outlives its reactor: senders hold a shared_ptr, and after
// OnDone every call is ignored. It ensures gRPC's two rules: one write in flight, one Finish.
//
// Thread: any, any time.
// A peer that does not read: Send drops the message and all that wait, cancels the call, and
// returns false, if too many messages wait or the write in flight takes too long. That write would
// otherwise never end, nor the call. The reactor's OnCancel and OnDone follow.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace outrider {

// Reactor: grpc::ServerWriteReactor<Message> or grpc::ServerBidiReactor<..., Message>.
template <class Reactor, class Message>
class StreamSink {
 public:
  // `capacity`: messages that may wait. `context`: the reactor's.
  StreamSink(Reactor* reactor, grpc::CallbackServerContext* context, size_t capacity,
             Duration write_timeout = std::chrono::seconds(30))
      : reactor_(reactor), context_(context), capacity_(capacity), write_timeout_(write_timeout) {}

  // Returns false if the stream is over.
  bool Send(Message message) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (reactor_ == nullptr || status_.has_value()) return false;
    const bool late =
        !queue_.empty() && std::chrono::steady_clock::now() - write_began_ > write_timeout_;
    if (late || queue_.size() >= capacity_) {
      CancelUnread();
      return false;
    }
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) StartWrite();
    return true;
  }

  // Ends the stream after what is queued. Only the first call counts.
  void Close(grpc::Status status) OUTRIDER_EXCLUDES(mu_) {
    Close(std::move(status), [] {});
  }
  // The same. `before` runs first if the stream is not over, while the call's context exists.
  template <class Before>
  void Close(grpc::Status status, Before&& before) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (reactor_ == nullptr || status_.has_value()) return;
    before();
    status_ = std::move(status);
    if (queue_.empty()) Finish();
  }

  // Runs `use` unless the stream is over; in it, the reactor exists and may start operations.
  template <class Use>
  void IfOpen(Use&& use) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (reactor_ != nullptr && !status_.has_value()) use();
  }

  // Call from OnWriteDone.
  void WriteDone(bool ok) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (reactor_ == nullptr) return;
    if (ok) {
      queue_.pop_front();
    } else {  // the transport is gone: nothing more can be sent
      queue_.clear();
      if (!status_.has_value()) status_ = grpc::Status::CANCELLED;
    }
    if (!queue_.empty()) {
      StartWrite();
    } else if (status_.has_value()) {
      Finish();
    }
  }

  // The call was cancelled because the peer does not read.
  bool WasUnread() OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return unread_;
  }

  // Call from OnDone, before the reactor deletes itself.
  void Detach() OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    reactor_ = nullptr;
  }

 private:
  void StartWrite() OUTRIDER_REQUIRES(mu_) {
    write_began_ = std::chrono::steady_clock::now();
    reactor_->StartWrite(&queue_.front());
  }
  void Finish() OUTRIDER_REQUIRES(mu_) { reactor_->Finish(*status_); }
  // WriteDone, for the write in flight, finishes the call.
  void CancelUnread() OUTRIDER_REQUIRES(mu_) {
    unread_ = true;
    status_ = grpc::Status::CANCELLED;
    while (queue_.size() > 1) queue_.pop_back();  // gRPC may still use the front
    context_->TryCancel();
  }

  Mutex mu_;
  Reactor* reactor_ OUTRIDER_GUARDED_BY(mu_);
  grpc::CallbackServerContext* const context_;  // while there is a reactor
  const size_t capacity_;
  const Duration write_timeout_;
  Time write_began_ OUTRIDER_GUARDED_BY(mu_);  // of the write in flight
  bool unread_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::deque<Message> queue_ OUTRIDER_GUARDED_BY(mu_);  // front: in flight
  std::optional<grpc::Status> status_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
