// Answers GetStatus. Calls that arrive while the engine thread is busy wait together and get one
// snapshot, so that asking costs the engine thread one task a step, however many ask.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "outrider/v1/generation.pb.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/rpc/write_thread.h"

namespace outrider {

class StatusCalls {
 public:
  // Further calls are refused until some of these are answered: each answer takes some hundred
  // bytes for every sequence.
  static constexpr size_t kMaxOpen = 64;

  // `snapshot` is called on the engine thread. All must outlive the calls.
  StatusCalls(EngineThread* thread, std::shared_ptr<WriteThread> writes,
              std::function<v1::GetStatusResponse()> snapshot);

  // Fills `response` and finishes the call, later and on another thread; or finishes it with
  // RESOURCE_EXHAUSTED. Thread: any.
  void Answer(grpc::ServerUnaryReactor* reactor, v1::GetStatusResponse* response);

 private:
  struct Call {
    grpc::ServerUnaryReactor* reactor;
    v1::GetStatusResponse* response;
  };

  // Returns false if the call cannot wait. `first`: no other call has asked the engine.
  bool Wait(const Call& call, bool* first) OUTRIDER_EXCLUDES(mu_);
  std::vector<Call> TakeWaiting() OUTRIDER_EXCLUDES(mu_);
  // Makes room for as many further calls. Call before their Finish, which may end this object.
  void Leave(size_t calls) OUTRIDER_EXCLUDES(mu_);
  void AnswerWaiting();  // on the engine thread

  EngineThread* const thread_;
  const std::shared_ptr<WriteThread> writes_;
  const std::function<v1::GetStatusResponse()> snapshot_;
  Mutex mu_;
  size_t open_ OUTRIDER_GUARDED_BY(mu_) = 0;            // not answered yet
  std::vector<Call> waiting_ OUTRIDER_GUARDED_BY(mu_);  // of these; AnswerWaiting is posted
};

}  // namespace outrider
