#include "verifier/pool/punctuality.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace outrider {
namespace {

// For a suspended drafter.
constexpr double kMaxTrial = 0.25;
// Five scheduler slices of 4 ms: below, a busy machine cannot be told from a slow drafter.
constexpr double kMinTimeout = 0.02;
// How many deviations are waited for (RFC 6298).
constexpr double kDeviations = 4;

// Late drafts in a row, of any request, that suspend a drafter: a stall of the machine is seldom
// that many. One is enough where there are more than kFreeStrikes.
constexpr int kLateToSuspend = 3;
// One suspension is forgiven for so many whole drafts in time, or when so long has passed since the
// last one: a drafter that is seldom asked has no other way.
constexpr int kDraftsToForgive = 16;
constexpr Duration kForgiveAfter = std::chrono::seconds(60);
// Suspensions that may end with the next good draft. One more holds for kFirstHold, each further
// one for twice as long, so that a drafter that is good while nobody waits and late otherwise costs
// one deadline in kFirstHold << kMaxDoublings at most.
constexpr int kFreeStrikes = 2;
constexpr int kMaxDoublings = 6;
constexpr Duration kFirstHold = std::chrono::milliseconds(500);
// When a suspended drafter is tried first, and how often that doubles.
constexpr Duration kFirstTrial = std::chrono::milliseconds(500);
constexpr int kMaxTrialDoublings = 5;

// Longest time of a draft that is worth waiting for.
double Longest(double worth) { return std::clamp(worth, kMinTimeout, Punctuality::kMaxTimeout); }

}  // namespace

double Punctuality::Timeout(double worth) const {
  if (suspended_) return 0;
  const double usual = round_trip_.mean + kDeviations * round_trip_.deviation;
  return std::max(min_wait_, std::clamp(usual, kMinTimeout, Longest(worth)));
}

double Punctuality::TrialTimeout(double worth) { return std::min(Longest(worth), kMaxTrial); }

void Punctuality::BeginTrial(Time now) {
  try_again_ = now + kFirstTrial * (1 << std::min(trials_, kMaxTrialDoublings));
  ++trials_;
}

void Punctuality::RepeatTrial(Time now) {
  trials_ = std::max(trials_ - 1, 0);
  try_again_ = std::max(now, suspended_until_);
}

void Punctuality::RecordRefusal(Time now, double seconds) {
  if (seconds > kMinTimeout) MarkLate(now, /*at_least=*/0, /*silent=*/false);
}

void Punctuality::MarkLate(Time now, double at_least, bool silent) {
  round_trip_.AddAtLeast(at_least);
  if (suspended_ || min_wait_ > 0) return;
  ++late_in_a_row_;
  const int enough = strikes_ > kFreeStrikes ? 1 : kLateToSuspend;
  if (silent || late_in_a_row_ >= enough) Suspend(now);
}

void Punctuality::RecordDraft(Time now, double seconds, double worth, bool late) {
  if (suspended_ && MayResume(now) && seconds <= Longest(worth)) {
    // What it was like before says little.
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
