#include "verifier/engine/intake.h"

#include <utility>

namespace outrider {

void Intake::Submit(uint64_t id, GenerationRequest request, std::shared_ptr<GenerationSink> sink,
                    const RefusedFn& refused) {
  std::vector<RequestChoice> only(1);
  only[0] = {.id = id, .request = std::move(request), .sink = std::move(sink)};
  Submit(std::move(only), refused);
}

void Intake::Submit(std::vector<RequestChoice> choices, const RefusedFn& refused) {
  const int count = static_cast<int>(choices.size());
  if (!engine_->gate().TryEnter(count)) {
    refused(ResourceExhausted("the queue is full; try again later"), engine_->gate().retry_after());
    return;
  }
  const bool posted =
      thread_->TryPost([engine = engine_, count, choices = std::move(choices), refused]() mutable {
        engine->gate().Leave(count);
        const Status status = engine->Submit(std::move(choices));
        if (status.ok()) return;
        const bool full = status.code() == Code::kResourceExhausted;
        refused(status, full ? std::optional(engine->RetryAfter()) : std::nullopt);
      });
  if (posted) return;
  engine_->gate().TurnAway(count);
  refused(ResourceExhausted("the verifier is overloaded; try again later"),
          std::chrono::seconds(1));
}

void Intake::Cancel(uint64_t id, std::function<void()> then) {
  thread_->Post([engine = engine_, id, then = std::move(then)] {
    engine->Cancel(id, ClientGone());
    if (then != nullptr) then();
  });
}

}  // namespace outrider
