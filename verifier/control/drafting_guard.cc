#include "verifier/control/drafting_guard.h"

#include <algorithm>
#include <cmath>

#include "verifier/control/policy.h"

namespace outrider {
namespace {

// Chosen on the fleets of docs/fleet.md. In rounds of each session:
//
// A period that is measured. Longer: less noise, and dearer trials.
constexpr double kPeriod = 12;
// After a change rounds are mixed: plans of before are still under way. Drafters must also read
// texts, and policies learn.
constexpr double kSettlingWithout = 4;
constexpr double kSettlingWith = 16;
// Rounds remembered of each way.
constexpr double kMemory = 60;

// Share of the time that trials may lose, and drafters before they are held back. Higher: changes
// are noticed sooner.
constexpr double kShare = 0.005;
// In plain rounds of each session: what a trial is expected to lose at least, and where it ends
// early, a quarter of a second or so. So does a period with drafters: policies that decode plainly
// for long may take to drafts all at once. A trial that measures nothing until there, while
// drafters still read the texts, doubles it for the next one, so often at most.
constexpr double kLeastPrice = 8;
constexpr double kMostLoss = 10;
constexpr double kMostDoublings = 4;
// What drafters may lose at a load before they are held back: policies learn in that time. The
// first time, in which they read all texts, they may lose more before plain decoding is measured.
constexpr double kPatience = 10;
constexpr double kMostFirstLoss = 40;
// A round counts at most as so many plain ones, since a longer one is a stall of the machine. Its
// way's speed counts it at most as so many of its usual rounds.
constexpr double kLongestRound = 20;
constexpr double kStall = 4;

}  // namespace

DraftingGuard::DraftingGuard() : settled_at_(kSettlingWith) {}

size_t DraftingGuard::IndexOf(int sessions) {
  // The nearest power of two, so that loads of 15 and 16 sessions are one.
  return std::min(static_cast<size_t>(std::lround(std::log2(std::max(sessions, 1)))), kLoads - 1);
}

double DraftingGuard::Speedup(int sessions) const {
  const Load& load = loads_[IndexOf(sessions)];
  if (!Knows(load.on, sessions) || !Knows(load.off, sessions)) return 0;
  return load.on.speed() / load.off.speed();
}

bool DraftingGuard::Knows(const Way& way, int sessions) {
  return way.rounds >= kPeriod / 2 * sessions;
}

double DraftingGuard::PriceOf(const Way& way, const Way& other) {
  return std::max(kLeastPrice, way.entry_time - way.entry_tokens / other.speed());
}

double DraftingGuard::MostTrialLoss(const Load& load) {
  return kMostLoss * std::exp2(std::min(load.doublings, kMostDoublings));
}

bool DraftingGuard::Allows(int sessions, bool is_open) {
  if (sessions < 2) return true;
  if (!on_ || is_open || !is_entry_ || progress_ >= settled_at_) return on_;
  if (opened_ >= sessions * progress_ / settled_at_) return false;
  ++opened_;
  return true;
}

void DraftingGuard::OnRound(const Round& round) {
  if (round.sessions < 2 || !IsSeconds(round.seconds) || !IsSeconds(round.plain_seconds)) return;
  Load& load = loads_[IndexOf(round.sessions)];
  const double time = std::min(round.seconds / round.plain_seconds, kLongestRound);
  progress_ += 1.0 / round.sessions;
  period_time_ += time / round.sessions;
  period_tokens_ += static_cast<double>(round.tokens) / round.sessions;
  credit_ += kShare * time;
  const bool is_settled = progress_ > settled_at_;
  const bool is_first = on_ && !Knows(load.off, round.sessions);
  // A plain round gains a token, as far as the cost model knows.
  const double other = is_first ? 1 : (on_ ? load.off : load.on).speed();
  if (on_ && !is_trial_) load.lost = std::max(0.0, load.lost + time - round.tokens / other);
  if (is_loss_due_ && (is_trial_ || !is_settled)) {
    const double best = std::max(load.on.speed(), load.off.speed());
    if (best > 0) loss_ += time - round.tokens / best;
  }
  if (is_settled) Measure(round, time, on_ ? &load.on : &load.off);
  const double lost = period_time_ - period_tokens_ / (other > 0 ? other : 1);
  const double most = is_first ? kMostFirstLoss : is_trial_ ? MostTrialLoss(load) : kMostLoss;
  const bool loses = (on_ || is_trial_) && lost > most;
  if (loses && is_first && !Knows(load.on, round.sessions)) load.on = WholePeriod(round.sessions);
  if (loses || progress_ >= settled_at_ + kPeriod) EndPeriod(load, round.sessions);
}

DraftingGuard::Way DraftingGuard::WholePeriod(int sessions) const {
  return {.tokens = period_tokens_ * sessions,
          .time = period_time_ * sessions,
          .rounds = kPeriod / 2 * sessions};
}

void DraftingGuard::Measure(const Round& round, double time, Way* way) {
  if (way->rounds > round.sessions) time = std::min(time, kStall * way->time / way->rounds);
  const double keeps = 1 - 1 / (kMemory * round.sessions);
  way->tokens = keeps * way->tokens + round.tokens;
  way->time = keeps * way->time + time;
  way->rounds = keeps * way->rounds + 1;
}

void DraftingGuard::EndPeriod(Load& load, int sessions) {
  Way& way = on_ ? load.on : load.off;
  if (is_entry_) {
    way.entry_time = period_time_;
    way.entry_tokens = period_tokens_;
  }
  const bool settles = progress_ <= settled_at_;
  if (is_trial_) load.doublings = settles ? load.doublings + 1 : 0;
  if (is_loss_due_ && !is_trial_) {
    credit_ -= std::max(0.0, loss_);
    is_loss_due_ = false;
  }
  bool next = !Knows(load.on, sessions);
  bool tries = false;
  if (Knows(load.on, sessions) && Knows(load.off, sessions)) {
    // Nothing is lost while policies decode plainly, and they can only find drafts that pay if
    // drafters are allowed.
    next = load.on.speed() > (1 - kShare) * load.off.speed() || load.lost <= kPatience * sessions;
    const double price = next ? PriceOf(load.off, load.on) : PriceOf(load.on, load.off);
    const double least = load.doublings > 0 ? MostTrialLoss(load) : 0;
    tries = !is_loss_due_ && credit_ >= std::max(price, least) * sessions;
    if (tries) {
      next = !next;
      is_loss_due_ = true;
    }
  }
  if (tries || !is_loss_due_) loss_ = 0;
  is_trial_ = tries;
  period_time_ = 0;
  period_tokens_ = 0;
  if (next == on_ && settles) return;  // it goes on settling
  is_entry_ = next != on_;
  on_ = next;
  progress_ = 0;
  settled_at_ = !is_entry_ ? 0 : on_ ? kSettlingWith : kSettlingWithout;
  opened_ = 0;
}

}  // namespace outrider
