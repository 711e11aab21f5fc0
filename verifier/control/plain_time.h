// How long plain decoding would have taken for the rounds that were served, at the load that they
// met. Over the time that they took, this is the speculative-decoding speedup (docs/metrics.md).
//
// A step took d seconds for `scored` rows of sequences that decode (a token each, and their draft
// tokens) and `prompt` rows of prompts. A linear fit over recent steps,
//
//   fit(scored, prompt) = base + a scored + b prompt,
//
// says how long the same step would have taken with other rows:
//
//   plain step     d * fit(decoding, 0) / fit(scored, prompt): one row for every sequence that
//                  decodes, those that wait for a draft included
//   prompts' part  d * (1 - fit(scored, 0) / fit(scored, prompt))
//
// A round of n tokens that was to have a draft would have been n plain steps, plus the prompts'
// parts of all steps since the sequence's last round, since prompts take as long either way. A
// round that no draft touches, its own or another sequence's, would have taken exactly what it
// took: the fit has no part in it.
//
// The measured d is scaled, rather than replaced by the fit's seconds, so that a slow moment of the
// machine counts on both sides.
//
// Thread: one (the engine's). Never fails; no allocation.
#pragma once

#include "verifier/control/linear_fit.h"

namespace outrider {

class PlainTime {
 public:
  PlainTime();

  // The rows of one step.
  struct Step {
    int decoding = 0;  // sequences that decode: those in the step and those that wait for a draft
    int scored = 0;    // rows of the former: a token each, and their drafts
    int prompt = 0;    // all other rows
    bool drafts = false;  // there are draft tokens among the rows, or somebody waits for some
  };
  // A step has ended. `seconds`: since the one before, or since there was work again.
  void OnStep(const Step& step, double seconds);

  // A round that the last step has ended.
  struct Round {
    double seconds = 0;         // since the sequence's round before
    double prompt_seconds = 0;  // of these, the growth of prompt_seconds()
    int tokens = 1;
    bool asked = false;  // for a draft, whether or not one came
  };
  // REQUIRES: OnStep was called.
  double Of(const Round& round) const;

  // The prompts' parts of all steps so far.
  double prompt_seconds() const { return prompt_seconds_; }

 private:
  LinearFit fit_;
  double prompt_seconds_ = 0;
  // Of the last step.
  bool drafts_ = false;
  double decode_part_ = 0;  // without the prompts'
  double plain_step_ = 0;
};

}  // namespace outrider
