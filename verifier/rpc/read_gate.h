// Reads a stream no faster than the engine follows: a flood fills its own connection, not the inbox
// that all share. Outlives the reactor, as its sink does.
//
// Thread: any.
#pragma once

#include <memory>
#include <utility>

#include "common/base/mutex.h"

namespace outrider {

// Messages of one stream that may wait for the engine. Then it is not read until the engine has
// caught up.
inline constexpr int kMaxPendingMessages = 64;

// Reactor: has StartRead(Message*). Sink: the stream's StreamSink.
template <class Reactor, class Message, class Sink>
class ReadGate {
 public:
  ReadGate(Reactor* reactor, Message* message, std::shared_ptr<Sink> sink)
      : reactor_(reactor), message_(message), sink_(std::move(sink)) {}

  // One more message waits for the engine.
  void Pend() OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    ++pending_;
  }
  // The engine has taken one message.
  void Release() OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    --pending_;
    if (std::exchange(waiting_, false)) {
      sink_->IfOpen([this] { reactor_->StartRead(message_); });
    }
  }
  // Called from a reaction: reads the next message now, or later when there is room.
  void Read() OUTRIDER_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    waiting_ = pending_ >= kMaxPendingMessages;
    if (!waiting_) reactor_->StartRead(message_);
  }

 private:
  Reactor* const reactor_;
  Message* const message_;
  const std::shared_ptr<Sink> sink_;
  Mutex mu_;
  int pending_ OUTRIDER_GUARDED_BY(mu_) = 0;
  bool waiting_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
