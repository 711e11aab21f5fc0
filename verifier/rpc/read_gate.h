// Reads a stream no faster than the engine follows: a flood fills its own connection, not the inbox
// that all share. Outlives the reactor, as its sink does.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "common/base/mutex.h"

namespace outrider {

// Messages of one stream that may wait for the engine, and their bytes. At either the stream is not
// read until the engine has caught up, so one message more than these bytes may wait.
inline constexpr int kMaxPendingMessages = 64;
inline constexpr size_t kMaxPendingBytes = 16 << 20;

// Reactor: has StartRead(Message*). Sink: the stream's StreamSink.
template <class Reactor, class Message, class Sink>
class ReadGate {
 public:
  ReadGate(Reactor* reactor, Message* message, std::shared_ptr<Sink> sink)
      : reactor_(reactor), message_(message), sink_(std::move(sink)) {}

  // One more message of so many bytes waits for the engine.
  void TakeRoom(size_t bytes) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++pending_;
    bytes_ += bytes;
  }
  // The engine has taken a message of so many bytes.
  void ReturnRoom(size_t bytes) OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    --pending_;
    bytes_ -= bytes;
    if (!waiting_ || !HasRoom()) return;
    waiting_ = false;
    sink_->IfOpen([this] { reactor_->StartRead(message_); });
  }
  // Called from a reaction: reads the next message now, or later when there is room.
  void Read() OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    waiting_ = !HasRoom();
    if (!waiting_) reactor_->StartRead(message_);
  }

 private:
  bool HasRoom() const OUTRIDER_REQUIRES(mu_) {
    return pending_ < kMaxPendingMessages && bytes_ < kMaxPendingBytes;
  }

  Reactor* const reactor_;
  Message* const message_;
  const std::shared_ptr<Sink> sink_;
  Mutex mu_;
  int pending_ OUTRIDER_GUARDED_BY(mu_) = 0;
  size_t bytes_ OUTRIDER_GUARDED_BY(mu_) = 0;  // of these
  bool waiting_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
