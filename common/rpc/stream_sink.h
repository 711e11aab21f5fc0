// The write half of a server stream. It outlives its reactor: senders hold a shared_ptr, and after
// OnDone every call is ignored. It ensures gRPC's two rules: one write in flight, one Finish.
//
// Thread: any, any time.
// When full (the peer does not read): Send drops the message, closes the stream with
// RESOURCE_EXHAUSTED, and returns false.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "common/base/mutex.h"

namespace outrider {

// Reactor: grpc::ServerWriteReactor<Message> or grpc::ServerBidiReactor<..., Message>.
template <class Reactor, class Message>
class StreamSink {
 public:
  StreamSink(Reactor* reactor, size_t capacity) : reactor_(reactor), capacity_(capacity) {}

  // Returns false if the stream is over.
  bool Send(Message message) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (reactor_ == nullptr || status_.has_value()) return false;
    if (queue_.size() >= capacity_) {
      status_ = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                             "the peer does not read: too many messages wait");
      return false;  // finishes after the write in flight
    }
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) reactor_->StartWrite(&queue_.front());
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
      reactor_->StartWrite(&queue_.front());
    } else if (status_.has_value()) {
      Finish();
    }
  }

  // Call from OnDone, before the reactor deletes itself.
  void Detach() OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    reactor_ = nullptr;
  }

 private:
  void Finish() OUTRIDER_REQUIRES(mu_) { reactor_->Finish(*status_); }

  Mutex mu_;
  Reactor* reactor_ OUTRIDER_GUARDED_BY(mu_);
  const size_t capacity_;
  std::deque<Message> queue_ OUTRIDER_GUARDED_BY(mu_);  // front: in flight
  std::optional<grpc::Status> status_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
