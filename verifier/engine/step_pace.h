// Measures how long forward passes take, and so how many rows the next one may have.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

namespace outrider {

class StepPace {
 public:
  // The row budget lies between `least_rows` and `most_rows` (least_rows <= most_rows).
  // `target_seconds`: the target time of a forward pass; 0: no target.
  StepPace(int least_rows, int most_rows, double target_seconds)
      : least_rows_(least_rows),
        most_rows_(most_rows),
        target_seconds_(target_seconds),
        row_budget_(most_rows) {}

  // Records a forward pass.
  void Record(int rows, double seconds);

  // The most rows of the next forward pass.
  int row_budget() const { return row_budget_; }
  // Recent mean time of a forward pass; 0: unknown.
  double step_seconds() const { return step_seconds_; }

 private:
  const int least_rows_;
  const int most_rows_;
  const double target_seconds_;
  int row_budget_;
  double step_seconds_ = 0;
};

}  // namespace outrider
