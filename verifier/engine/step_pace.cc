#include "verifier/engine/step_pace.h"

#include <algorithm>

namespace outrider {

void StepPace::Record(int rows, double seconds) {
  constexpr double kGain = 1.0 / 16;              // per step
  constexpr double kShrink = 0.85, kGrow = 1.05;  // factors of the row budget
  step_seconds_ = step_seconds_ > 0 ? step_seconds_ + kGain * (seconds - step_seconds_) : seconds;
  if (target_seconds_ <= 0) return;
  double budget = row_budget_;
  if (seconds > target_seconds_) {
    budget = std::min(budget, static_cast<double>(rows)) * kShrink;
  } else if (rows * 2 > row_budget_) {  // a small pass does not show how long a full one takes
    budget = budget * kGrow + 1;
  }
  row_budget_ = std::clamp(static_cast<int>(budget), least_rows_, most_rows_);
}

}  // namespace outrider
