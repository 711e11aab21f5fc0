#include "verifier/engine/intake.h"

#include <utility>

namespace outrider {

void Intake::Submit(uint64_t id, GenerationRequest request, std::shared_ptr<GenerationSink> sink,
                    const RefusedFn& refused) {
  if (!engine_->gate().TryEnter()) {
    refused(ResourceExhausted("the queue is full; try again later"), engine_->gate().retry_after());
    return;
  }
  const bool posted = thread_->TryPost([engine = engine_, id, request = std::move(request),
                                        sink = std::move(sink), refused]() mutable {
    engine->gate().Leave();
    const Status status = engine->Submit(id, std::move(request), std::move(sink));
    if (status.ok()) return;
    const bool full = status.code() == Code::kResourceExhausted;
    refused(status, full ? std::optional(engine->RetryAfter()) : std::nullopt);
  });
  if (posted) return;
  engine_->gate().Leave();
  refused(ResourceExhausted("the verifier is overloaded; try again later"),
          std::chrono::seconds(1));
}

void Intake::Cancel(uint64_t id, std::function<void()> then) {
  thread_->Post([engine = engine_, id, then = std::move(then)] {
    engine->Cancel(id, Status(Code::kCancelled, "the client cancelled the request"));
    if (then != nullptr) then();
  });
}

}  // namespace outrider
