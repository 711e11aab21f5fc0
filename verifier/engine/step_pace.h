// How long forward passes take, and so how many rows the next one may have.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

namespace outrider {

class StepPace {
 public:
  // `least_rows` to `most_rows`: the budget's range, the former at most the latter.
  // `target_seconds`: a forward pass is kept to about this long; 0: no target.
  StepPace(int least_rows, int most_rows, double target_seconds)
      : least_rows_(least_rows),
        most_rows_(most_rows),
        target_seconds_(target_seconds),
        row_budget_(most_rows) {}

  // A forward pass of `rows` rows took `seconds`.
  void Record(int rows, double seconds);

  // Rows that the next forward pass may have.
  int row_budget() const { return row_budget_; }
  // Of a forward pass, a recent mean; 0: not known yet.
  double step_seconds() const { return step_seconds_; }

 private:
  const int least_rows_;
  const int most_rows_;
  const double target_seconds_;
  int row_budget_;
  double step_seconds_ = 0;
};

}  // namespace outrider
