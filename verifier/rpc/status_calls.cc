#include "verifier/rpc/status_calls.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/status_map.h"

namespace outrider {

StatusCalls::StatusCalls(EngineThread* thread, std::shared_ptr<WriteThread> writes,
                         std::function<v1::GetStatusResponse()> snapshot)
    : thread_(thread), writes_(std::move(writes)), snapshot_(std::move(snapshot)) {}

void StatusCalls::Answer(grpc::ServerUnaryReactor* reactor, v1::GetStatusResponse* response) {
  bool first = false;
  if (!Wait({reactor, response}, &first)) {
    reactor->Finish(ToGrpc(ResourceExhausted(std::to_string(kMaxOpen) +
                                             " calls wait for the status; ask less often")));
    return;
  }
  if (!first || thread_->TryPost([this] { AnswerWaiting(); })) return;
  const std::vector<Call> calls = TakeWaiting();
  Leave(calls.size());
  for (const Call& call : calls) {
    call.reactor->Finish(ToGrpc(ResourceExhausted("the verifier is overloaded")));
  }
}

bool StatusCalls::Wait(const Call& call, bool* first) {
  MutexLock lock(mu_);
  if (open_ >= kMaxOpen) return false;
  ++open_;
  *first = waiting_.empty();
  waiting_.push_back(call);
  return true;
}

std::vector<StatusCalls::Call> StatusCalls::TakeWaiting() {
  MutexLock lock(mu_);
  return std::exchange(waiting_, {});
}

void StatusCalls::Leave(size_t calls) {
  MutexLock lock(mu_);
  open_ -= calls;
}

void StatusCalls::AnswerWaiting() {
  std::vector<Call> calls = TakeWaiting();
  // Copying and serializing is not the engine thread's work.
  writes_->Post([this, calls = std::move(calls), status = snapshot_()] {
    for (const Call& call : calls) *call.response = status;
    Leave(calls.size());
    for (const Call& call : calls) call.reactor->Finish(grpc::Status::OK);
  });
}

}  // namespace outrider
