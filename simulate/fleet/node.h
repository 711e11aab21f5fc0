// A process of the simulated fleet: one thread that handles what has arrived and then makes a step,
// as EngineThread and DraftLoop::Run do. A step runs at once, while the node's own clock advances
// by what it takes; what it sends leaves at that clock's time, and what arrives meanwhile is
// handled after the step.
//
// Thread: one owner.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "simulate/fleet/event_queue.h"

namespace outrider {

// What runs one pass at a time: a node's own, or shared by two that are co-located.
struct SimulatedDevice {
  Time free_at{};
};

class NodeClock final : public Clock {
 public:
  Time Now() const override { return now_; }
  void Set(Time now) { now_ = now; }
  void Advance(Duration by) { now_ += by; }

 private:
  Time now_{};
};

class SimulatedNode {
 public:
  // `queue` must outlive it.
  SimulatedNode(EventQueue* queue, std::shared_ptr<SimulatedDevice> device);
  virtual ~SimulatedNode() = default;
  SimulatedNode(const SimulatedNode&) = delete;
  SimulatedNode& operator=(const SimulatedNode&) = delete;

  // Runs `task` before the next step, which begins now if the node is idle. Ignored after Kill.
  void Post(std::function<void()> task);
  // Ends the node: it makes no further step.
  void Kill();
  bool alive() const { return alive_; }
  // On a shared device, lets another node that also wants it go first.
  void set_yields() { yields_ = true; }
  // All of its passes take this many times as long from now on.
  void set_slowness(double factor) { slowness_ = factor; }
  double slowness() const { return slowness_; }

  const NodeClock& clock() const { return clock_; }
  double busy_seconds() const { return busy_seconds_; }  // in forward passes
  // From its start to its end, or to now.
  double alive_seconds() const;

 protected:
  // Returns false if there was nothing to do.
  virtual bool Step() = 0;
  // When to step again if nothing arrives.
  virtual std::optional<Time> NextDeadline() const { return std::nullopt; }
  // Spends the time of a pass.
  void Spend(double seconds);

  NodeClock clock_;

 private:
  void Schedule(Time at);
  void Run();

  EventQueue* const queue_;
  const std::shared_ptr<SimulatedDevice> device_;
  std::vector<std::function<void()>> inbox_;
  const Time started_;
  Time ended_{};
  bool alive_ = true;
  bool yields_ = false;
  double slowness_ = 1;
  double busy_seconds_ = 0;
  Time free_at_{};                // when the step under way ends
  std::optional<Time> next_run_;  // the scheduled run
  std::vector<Time> run_events_;  // at `next_run_`, and at others that do nothing
};

}  // namespace outrider
