#include "verifier/pool/punctuality.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace outrider {
namespace {

// The longest wait for a suspended drafter.
constexpr double kMaxTrial = 0.25;
// Five scheduler slices of 4 ms: below that, a busy machine looks like a slow drafter.
constexpr double kMinTimeout = 0.02;
// While other sessions' steps go on, a draft is read when one of them ends. One that misses the end
// of the first arrives before that of the second as a rule, with more tokens than a plain round in
// between would give.
constexpr double kMinSteps = 2;
// How many deviations above the mean to wait (RFC 6298).
constexpr double kDeviations = 4;

// Late drafts in a row, of any requests, that suspend a drafter: a stall of the machine seldom
// causes that many. Beyond kFreeStrikes suspensions one is enough.
constexpr int kLateToSuspend = 3;
// One suspension is cleared by this many whole drafts on time, or by this much time since the last
// one, which is the only way for a drafter that is seldom asked.
constexpr int kDraftsToForgive = 16;
constexpr Duration kForgiveAfter = std::chrono::seconds(60);
// Suspensions that may end with the next good draft. The next lasts for kFirstHold, each further
// one for twice as long. So a drafter that is on time only while nobody waits costs at most one
// deadline per kFirstHold << kMaxDoublings.
constexpr int kFreeStrikes = 2;
constexpr int kMaxDoublings = 6;
constexpr Duration kFirstHold = std::chrono::milliseconds(500);
// When the first trial of a suspended drafter is due, and how often that doubles.
constexpr Duration kFirstTrial = std::chrono::milliseconds(500);
constexpr int kMaxTrialDoublings = 5;

// The longest time of a draft that is worth waiting for.
double Longest(double worth) { return std::clamp(worth, kMinTimeout, Punctuality::kMaxTimeout); }

}  // namespace

double Punctuality::Timeout(double worth, double step) const {
  if (suspended_) return 0;
  const double usual =
      std::max(round_trip_.mean + kDeviations * round_trip_.deviation, kMinSteps * step);
  return std::max(min_wait_, std::clamp(usual, kMinTimeout, Longest(worth)));
}

double Punctuality::TrialTimeout(double worth) { return std::min(Longest(worth), kMaxTrial); }

void Punctuality::BeginTrial(Time now) {
  if (trials_ == 0) silent_since_ = now;
  try_again_ = now + kFirstTrial * (1 << std::min(trials_, kMaxTrialDoublings));
  ++trials_;
}

void Punctuality::RepeatTrial(Time now) {
  trials_ = std::max(trials_ - 1, 0);
  try_again_ = std::max(now, suspended_until_);
}

void Punctuality::RecordRefusal(Time now, double seconds) {
  if (seconds > kMinTimeout) MarkLate(now, /*at_least=*/0, /*nothing_arrived=*/false);
}

void Punctuality::MarkLate(Time now, double at_least, bool nothing_arrived) {
  round_trip_.AddAtLeast(at_least);
  if (suspended_ || min_wait_ > 0) return;
  ++late_in_a_row_;
  const int enough = strikes_ > kFreeStrikes ? 1 : kLateToSuspend;
  if (nothing_arrived || late_in_a_row_ >= enough) Suspend(now);
}

void Punctuality::RecordDraft(Time now, double seconds, double worth, bool late) {
  if (suspended_ && MayResume(now) && seconds <= Longest(worth)) {
    // Earlier times are no longer representative.
    suspended_ = false;
    round_trip_ = {};
    late = false;
  }
  round_trip_.Add(seconds);
  if (suspended_ || late) return;
  shown_ = true;
  late_in_a_row_ = 0;
  if (++in_time_ < kDraftsToForgive) return;
  in_time_ = 0;
  strikes_ = std::max(strikes_ - 1, 0);
}

void Punctuality::Suspend(Time now) {
  suspended_ = true;
  late_in_a_row_ = 0;
  trials_ = 0;
  BeginTrial(now);
  strikes_ -= static_cast<int>(std::min<int64_t>((now - suspended_at_) / kForgiveAfter, strikes_));
  suspended_at_ = now;
  const int doublings = strikes_ - kFreeStrikes;
  strikes_ = std::min(strikes_ + 1, kFreeStrikes + kMaxDoublings);
  suspended_until_ = doublings < 0 ? now : now + kFirstHold * (1 << doublings);
  try_again_ = std::max(try_again_, suspended_until_);
}

}  // namespace outrider
