// Decides whether one drafter's drafts are on time, and so how long to wait for them.
//
// Only whole drafts count as on time. A drafter begins suspended: it gets plans now and then, but
// its drafts are not waited for (except in a few trials, see DrafterPool) until a whole one has
// arrived soon enough to be worth waiting for. Late drafts suspend it again, and repeated
// suspensions last longer each time. So the total time lost to a drafter is bounded, whatever it
// does: a few deadlines per suspension.
//
// Times are in seconds from the sending of a plan. Pure: the time of day is an argument.
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
  // It was suspended for late drafts, or did not prove itself in its first trial.
  bool silent() const { return suspended_ && (shown_ || trials_ > 1); }
  // Of a silent one: when it was suspended, or had its first trial.
  Time silent_since() const { return silent_since_; }

  // How long to wait for a draft that saves at most `worth`: four deviations more than usual and at
  // least two forward passes of `step`, but no longer than it is worth. 0 while suspended.
  double Timeout(double worth, double step) const;

  // The timeout in a trial that is waited for.
  static double TrialTimeout(double worth);

  // Whether a good draft would end the suspension now.
  bool MayResume(Time now) const { return now >= suspended_until_; }
  // When this is due, a suspended drafter gets a request as a trial; BeginTrial sets the time of
  // the next, twice as late each time.
  bool IsTrialDue(Time now) const { return now >= try_again_; }
  void BeginTrial(Time now);
  // The trial under way did not show its usual time, so it is repeated as soon as possible.
  void RepeatTrial(Time now);

  // A draft was incomplete at its deadline. `at_least`: how long it has taken so far; 0 if that is
  // not representative. `nothing_arrived`: no message at all came from the drafter meanwhile.
  void MarkLate(Time now, double at_least, bool nothing_arrived);
  // It refused to draft, `seconds` after the request. Counts as late if a round waited.
  void RecordRefusal(Time now, double seconds);
  // A whole draft arrived after `seconds`, before its deadline or (`late`) after it.
  void RecordDraft(Time now, double seconds, double worth, bool late);

 private:
  void Suspend(Time now);

  double min_wait_ = 0;
  Estimate round_trip_;
  bool suspended_ = true;
  bool shown_ = false;  // a whole draft has arrived on time
  int late_in_a_row_ = 0;
  int in_time_ = 0;       // drafts on time since they last cleared a suspension
  int strikes_ = 0;       // suspensions not cleared yet
  int trials_ = 0;        // since the suspension
  Time suspended_at_;     // most recently
  Time silent_since_;     // see silent_since()
  Time suspended_until_;  // at the earliest
  Time try_again_;
};

}  // namespace outrider
