// How much grammar work the sessions of one verifier may cause on the drafting loop, for which the
// sessions of all verifiers wait: a mask takes up to half a second, and reading a session's text
// has no bound. Verifiers whose sessions have grammars share the work equally. One that has used up
// its share gets drafts without masks, which are lossless, but less often accepted.
//
// Owner: the verifier's connection. Thread: the drafting loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/grammar/grammar_masks.h"

namespace outrider {

class GrammarShare {
 public:
  // Of all verifiers in one step of the loop. Grammars' steps take 5 to 20 ns.
  static constexpr int64_t kSteps = 1'000'000;
  // The most that a verifier can save, such as for the first masks of new grammars.
  static constexpr int64_t kMostSaved = 16'000'000;
  // The most that it can save for reading texts.
  static constexpr int64_t kMostForReading = 32'000'000;

  // `scratch`: the loop's, must outlive it.
  explicit GrammarShare(grammar::MaskScratch* scratch) : scratch_(scratch) {}

  // A step of the loop begins, for which `sharers` verifiers have grammars.
  void Refill(int sharers) {
    left_ = std::min(left_ + kSteps / sharers, kMostSaved);
    for_reading_ = std::min(for_reading_ + kSteps / sharers, kMostForReading);
  }
  // A step begins for a verifier that has the loop to itself.
  void SetUnlimited() { left_ = for_reading_ = std::numeric_limits<int64_t>::max() / 2; }
  bool CanMask() const { return left_ > 0; }
  // Masks do not count here: a session whose text is not read loses its grammar until it is opened
  // again.
  bool CanRead() const { return for_reading_ > 0; }

  // Both return work(scratch), and take the steps that it makes. What is read leaves less for
  // masks, too.
  template <class Work>
  auto SpendOnMask(Work work) {
    const int64_t begin = scratch_->stepper.steps();
    auto result = work(*scratch_);
    left_ -= scratch_->stepper.steps() - begin;
    return result;
  }
  template <class Work>
  auto SpendOnReading(Work work) {
    const int64_t before = left_;
    auto result = SpendOnMask(work);
    for_reading_ -= before - left_;
    return result;
  }

 private:
  grammar::MaskScratch* const scratch_;
  // A new connection has saved little: it may be a verifier that ended the one before for that.
  int64_t left_ = kSteps;
  // But its sessions, which it opens again, are read at once. It is dialled about once a second at
  // most (Backoff), and the loop's steps of a second refill as much.
  int64_t for_reading_ = kMostForReading;
};

}  // namespace outrider
