// Whether one drafter's drafts come in time, and so how long to wait for them.
//
// Only a whole draft counts as work in time. A drafter begins suspended: it gets plans now and
// then, but its drafts are not waited for (except in a few trials, see DrafterPool) until a whole
// one has come soon enough to be worth waiting for. Drafts that are late suspend it again. A
// drafter that is suspended again and again, with little in between, stays so for longer each time.
// So the total time that is lost to a drafter is bounded, whatever it does: a few deadlines for
// each suspension.
//
// Times are in seconds, from a plan's sending. Pure: the time of day is an argument.
//
// Thread: the engine thread only.
#pragma once

#include "common/base/clock.h"
#include "verifier/pool/estimate.h"

namespace outrider {

class Punctuality {
 public:
  // Longest wait for any draft, unless a least one is asked for.
  static constexpr double kMaxTimeout = 1.0;

  // `min_wait`: every draft is waited for at least so long, and the drafter is never suspended.
  // Above 0 only for tests and measurements: nothing bounds what a drafter that hangs then costs.
  Punctuality() = default;
  explicit Punctuality(double min_wait) : min_wait_(min_wait), suspended_(min_wait == 0) {}

  // From a plan's sending to its whole draft. A draft that never came counts with the time that was
  // waited for it.
  const Estimate& round_trip() const { return round_trip_; }
  bool suspended() const { return suspended_; }
  // It was suspended for drafts that were late, or did not show in its first trial what it can do.
  bool silent() const { return suspended_ && (shown_ || trials_ > 1); }

  // How long to wait for a draft that saves `worth` at most: four deviations more than usual, but
  // no longer than it is worth. 0 while suspended.
  double Timeout(double worth) const;

  // The same in a trial that is waited for.
  static double TrialTimeout(double worth);

  // Whether a good draft would end the suspension now.
  bool MayResume(Time now) const { return now >= suspended_until_; }
  // A suspended drafter gets a request to try it when this is due; BeginTrial sets when the next
  // one is, twice as late each time.
  bool IsTrialDue(Time now) const { return now >= try_again_; }
  void BeginTrial(Time now);
  // The trial under way showed nothing of its usual time: it begins again as soon as it can.
  void RepeatTrial(Time now);

  // The deadline of a draft passed before all of it had come. `at_least`: how long it has taken so
  // far; 0 if that says nothing of its usual time. `silent`: nothing at all has come from the
  // drafter meanwhile.
  void MarkLate(Time now, double at_least, bool silent);
  // It refused to draft, `seconds` after it was asked to. Late where that held somebody up.
  void RecordRefusal(Time now, double seconds);
  // A whole draft came after `seconds`, before its deadline or (`late`) after it.
  void RecordDraft(Time now, double seconds, double worth, bool late);

 private:
  void Suspend(Time now);

  double min_wait_ = 0;
  Estimate round_trip_;
  bool suspended_ = true;
  bool shown_ = false;  // a whole draft has come in time
  int late_in_a_row_ = 0;
  int in_time_ = 0;       // since one suspension was last forgiven for them
  int strikes_ = 0;       // suspensions that are not forgiven yet
  int trials_ = 0;        // since it was suspended
  Time suspended_at_;     // last
  Time suspended_until_;  // at least
  Time try_again_;
};

}  // namespace outrider
