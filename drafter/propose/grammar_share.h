// How much grammar work the sessions of one verifier may cause on the drafting loop, for which the
// sessions of all verifiers wait: a mask takes up to half a second, and a session's text as long as
// its author likes. Verifiers share the work equally. One that has used up its share gets drafts
// without masks, which are lossless, but less often accepted.
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
  // The most that a verifier can save, such as for the first masks of new grammars, or owe.
  static constexpr int64_t kMost = 16'000'000;

  // `scratch`: the loop's, must outlive it.
  explicit GrammarShare(grammar::MaskScratch* scratch) : scratch_(scratch) {}

  // A step of the loop begins. A verifier that has it to itself has no limit.
  void Refill(int verifiers) {
    constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 2;
    left_ = verifiers == 1 ? kUnlimited : std::min(left_ + kSteps / verifiers, kMost);
  }
  bool allows_masks() const { return left_ > 0; }
  // Texts are still read when masks are not made any more: a session whose text is not read loses
  // its grammar until it is opened again.
  bool allows_reading() const { return left_ > -kMost; }

  // Returns work(scratch), and takes the steps that it makes.
  template <class Work>
  auto Spend(Work work) {
    const int64_t begin = scratch_->stepper.steps();
    auto result = work(*scratch_);
    left_ -= scratch_->stepper.steps() - begin;
    return result;
  }

 private:
  grammar::MaskScratch* const scratch_;
  int64_t left_ = kMost;
};

}  // namespace outrider
