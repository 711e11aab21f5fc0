// Decides for the engine as a whole whether sessions may ask drafters for drafts, so that drafters
// do not slow it down.
//
// A session's policy sees the time of its own rounds. But its drafts may slow the rounds of all
// others: they take the time of a device that drafter and verifier share, and they leave steps half
// full. So the guard compares the two ways, with drafters and without, by the tokens that all
// sessions gain in a time at the same load. It goes the faster way, and tries the other one for a
// period now and then, because either may change (a switchback experiment). Drafters are held back
// only once they have lost some ten plain rounds of each session: policies have to learn.
//
// Time is counted in plain rounds as the cost model predicts them for the load of the moment, so
// that periods of somewhat different loads are comparable. Each power of two of sessions has its
// own comparison. Trials may lose half a per cent of the time: the next one waits until that has
// grown to what one is known to cost.
//
// A lone session slows nobody. It may always ask, and its rounds are not recorded.
//
// Thread: one (the engine's). No clock, no randomness, no allocation.
#pragma once

#include <array>
#include <cstddef>

namespace outrider {

class DraftingGuard {
 public:
  struct Round {
    int sessions = 1;  // with rounds under way, this one included
    // From its plan to its verdict, without the time that steps took for prompts.
    double seconds = 0;
    double plain_seconds = 0;  // of a plain round at this load, by the cost model
    int tokens = 0;            // that it emitted
  };

  DraftingGuard();
  DraftingGuard(const DraftingGuard&) = delete;
  DraftingGuard& operator=(const DraftingGuard&) = delete;

  // Whether one of `sessions` sessions may ask a drafter for its next round. `is_open`: a drafter
  // knows its text. After a change the others' texts are read a few at a time, so that a trial can
  // end before it has cost much.
  bool Allows(int sessions, bool is_open);
  // A round ended, drafted or not. Invalid times are ignored.
  void OnRound(const Round& round);

  // Speed with drafters over that without at this load; 0: not compared yet.
  double Speedup(int sessions) const;

 private:
  // One way at one load. What was measured is discounted, round by round.
  struct Way {
    double tokens = 0;
    double time = 0;  // in plain rounds
    double rounds = 0;
    // Of each session, in its last period that began with a change to this way: all tokens, and all
    // time, until the engine had settled and beyond. Drafters read the texts in that time.
    double entry_tokens = 0;
    double entry_time = 0;
    double speed() const { return time > 0 ? tokens / time : 0; }  // 0: unknown
  };
  struct Load {
    Way off, on;
    // In plain rounds of all sessions, by drafters outside of trials, less what they gained since;
    // at least 0.
    double lost = 0;
    // A trial that ended before it measured anything doubles what the next one may lose.
    double doublings = 0;
  };
  static constexpr size_t kLoads = 12;

  static size_t IndexOf(int sessions);
  static bool Knows(const Way& way, int sessions);
  // Plain rounds that each session loses by a trial of `way`.
  static double PriceOf(const Way& way, const Way& other);
  // What a trial at this load may lose, likewise.
  static double MostTrialLoss(const Load& load);
  static void Measure(const Round& round, double time, Way* way);
  // All of the period under way, as if half a usual one had been measured.
  Way WholePeriod(int sessions) const;
  // Chooses the way of the next period.
  void EndPeriod(Load& load, int sessions);

  std::array<Load, kLoads> loads_;
  bool on_ = true;
  // The period under way. Progress is in rounds of each session.
  double progress_ = 0;
  double settled_at_;      // progress from which rounds are measured
  int opened_ = 0;         // sessions that a drafter learned of until then
  bool is_entry_ = false;  // it began with a change of the way
  bool is_trial_ = false;
  double period_tokens_ = 0;
  double period_time_ = 0;
  // In plain rounds of all sessions.
  double credit_ = 0;         // that trials may lose
  double loss_ = 0;           // of the last trial, until the engine has settled after it
  bool is_loss_due_ = false;  // `loss_` was not taken from the credit yet
};

}  // namespace outrider
