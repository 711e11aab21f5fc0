// Estimates how long plain decoding would have taken for the rounds that were served, at the same
// load. Over the time that they took, this is the speculative-decoding speedup (docs/metrics.md).
//
// A step took d seconds for `scored` rows of decoding sequences (a token each, and their draft
// tokens) and `prompt` rows of prompts. A linear fit over recent steps,
//
//     fit(scored, prompt) = base + a scored + b prompt,
//
// predicts the same step with other rows:
//
//     plain step     d * fit(decoding, 0) / fit(scored, prompt): one row for every decoding
//                    sequence, including those that wait for a draft
//     prompts' part  d * (1 - fit(scored, 0) / fit(scored, prompt))
//
// A round of n tokens for which a draft was requested would have been n plain steps, plus the
// prompts' parts of all steps since the sequence's last round, since prompts take as long either
// way. A round that no draft touches, its own or another sequence's, would have taken exactly what
// it took, without the fit.
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
    int decoding = 0;     // decoding sequences: in the step, or waiting for a draft
    int scored = 0;       // rows of the former: a token each, and their draft tokens
    int prompt = 0;       // all other rows
    bool drafts = false;  // some rows are draft tokens, or a sequence waits for a draft
  };
  // Records a step. `seconds`: since the one before, or since there was work again.
  void OnStep(const Step& step, double seconds);

  // A round that the last step ended.
  struct Round {
    double seconds = 0;         // since the sequence's round before
    double prompt_seconds = 0;  // growth of prompt_seconds() in that time
    int tokens = 1;
    bool asked = false;  // a draft was requested, whether or not one came
  };
  // REQUIRES: OnStep was called.
  double Of(const Round& round) const;

  // The prompts' parts of all steps so far.
  double prompt_seconds() const { return prompt_seconds_; }

 private:
  LinearFit fit_;
  double prompt_seconds_ = 0;
  // State of the last step.
  bool drafts_ = false;
  double decode_part_ = 0;  // without the prompts'
  double plain_step_ = 0;
};

}  // namespace outrider
