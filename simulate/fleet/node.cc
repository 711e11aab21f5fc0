#include "simulate/fleet/node.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// After a deadline that did not end anything, so that time goes on.
constexpr Duration kPause = std::chrono::microseconds(10);

}  // namespace

SimulatedNode::SimulatedNode(EventQueue* queue, std::shared_ptr<SimulatedDevice> device)
    : queue_(queue), device_(std::move(device)), started_(queue->now()) {
  clock_.Set(started_);
}

void SimulatedNode::Post(std::function<void()> task) {
  if (!alive_) return;
  inbox_.push_back(std::move(task));
  Schedule(std::max(queue_->now(), free_at_));
}

void SimulatedNode::Kill() {
  if (!alive_) return;
  alive_ = false;
  ended_ = queue_->now();
  inbox_.clear();
}

double SimulatedNode::alive_seconds() const {
  return Seconds((alive_ ? queue_->now() : ended_) - started_);
}

void SimulatedNode::Spend(double seconds) {
  clock_.Advance(FromSeconds(seconds * slowness_));
  busy_seconds_ += seconds * slowness_;
}

void SimulatedNode::Schedule(Time at) {
  if (next_run_.has_value() && *next_run_ <= at) return;
  next_run_ = at;
  // The event of a run that an earlier one came before may still be there.
  if (std::ranges::find(run_events_, at) != run_events_.end()) return;
  run_events_.push_back(at);
  queue_->At(at, [this, at] {
    std::erase(run_events_, at);
    if (next_run_ == at) Run();
  });
}

void SimulatedNode::Run() {
  next_run_.reset();
  if (!alive_) return;
  const Time now = queue_->now();
  // Events of the same time that others have scheduled come first.
  const Duration yielding{yields_ ? 1 : 0};
  if (device_->free_at + yielding > now) return Schedule(device_->free_at + yielding);
  clock_.Set(now);
  for (const auto& task : std::exchange(inbox_, {})) task();
  const bool worked = Step();
  free_at_ = clock_.Now();
  device_->free_at = free_at_;
  if (worked) return Schedule(free_at_);
  if (const std::optional<Time> deadline = NextDeadline()) {
    Schedule(std::max(*deadline, now + kPause));
  }
}

}  // namespace outrider
