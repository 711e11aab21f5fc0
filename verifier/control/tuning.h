// Constants of the adaptive policy (adaptive.h).
//
// All were chosen on the scenarios of tests/control (`ctest -R Scenarios`). Brackets give the
// scenario that suffers most if the constant is set to have no effect, as its time over that of the
// best fixed arm. The bounds are 1.03 at 512 tokens and 1.08 at 128. A scenario's times are exact,
// so scenarios cannot test constants that keep noise out.
#pragma once

namespace outrider {

struct AdaptiveTuning {
  // A family's prior. With more weight on observations, good arms are found sooner, and luck counts
  // for more.
  //
  // Rounds that have half the weight in the belief about a family. [0: far_drafter 1.15 at 128]
  double prior_rounds = 8;
  // Share of the unknown part of a family that is taken from the others. [0: one_request 1.031]
  double from_others = 0.15;
  // Weight of all sessions pooled; the rest is how sessions differ. Sessions of one client are
  // mostly alike. [0: five_close 1.042]
  double pooled = 0.8;
  // Rounds that a family's prior remembers. [no limit: one figure in six moves, by 0.001 at most]
  double memory_rounds = 1000;
  // Probability per round that all sessions change. [0: figures move by up to 0.010, either way]
  double pool_leak = 1.0 / 2000;

  // Change points of the text. Higher: a change is noticed sooner, and what was learned is lost
  // sooner.
  //
  // Probability per round that the text changes and some family becomes better. [0: drift_swap
  // 1.46]
  double turn = 1.0 / 80;
  // Multiple of it for a family that earlier sessions have shown: it is known what to return to.
  // Chosen on recorded texts (recorded_pair_test.cc), where at 1 a poor beginning ends in a plain
  // text. [1: no figure moves, as no scenario has a text that begins unlike the others]
  double most_turns = 4;
  // After a change point most of the prior goes to distributions seen in earlier sessions. [1:
  // hard_far_alone 1.049; 0: one_request 1.042]
  double turn_own = 0.8;

  // Acceptance by depth (DepthProfile).
  //
  // Discount per round: two thousand are remembered. [1: figures move by up to 0.004]
  double profile_discount = 0.9995;
  // Prior trials of equal depths. [0: hard_far_alone 1.037]
  double profile_prior = 32;
  // Rounds between two updates of the tables, to save time. [1: hard_far_alone 1.063]
  int tabulate_every = 32;

  // Measured over modelled seconds of a family, smoothed against noise.
  //
  // Discount per round of any session: a hundred are remembered, so that a family that was slow
  // while the machine was busy gets another chance.
  double time_discount = 0.99;
  // Prior plain rounds that took what the cost model predicts.
  double time_prior = 4;
  // Multiple of the usual time of a round beyond which it is a stall.
  double stall = 2;
  // Plain rounds of stalls that are not charged; the ledger discounts them like its other entries.
  // A single stall must not prevent drafts for a thousand tokens, nor may stalls hide what drafts
  // cost.
  double most_forgiven = 32;

  // The value of trying an arm. Higher: more is tried, and more is lost by it.
  //
  // Share of a trial's possible gain that counts, as later rounds could learn the same. [1:
  // hard_far_alone 1.095]
  double eagerness = 0.5;
  // The same where later sessions profit: each of them begins to try arms again. Chosen on recorded
  // texts (recorded_pair_test.cc), where 0.5 spends a fifth of all rounds on trials.
  double shared_eagerness = 0.06;
  // Tokens for which an observation is trusted to hold. [no limit: many_arms 1.27 at 128]
  double horizon_tokens = 256;
  // Gain of the share of rounds in which a family can be used: lookups seldom find a match, so that
  // little can be gained by knowing how good they are.
  double offered_gain = 1.0 / 64;
  // Rounds over which a drafter's catching up is spread, as it is likely to stay in use. No
  // scenario has a drafter that must catch up.
  double stay = 16;

  // The ledger of time lost against plain decoding. Higher: more may be risked.
  //
  // Share of tokens: 3 % less a margin for errors of the cost model. [0.03: nothing_accepted takes
  // 1.031 of plain decoding]
  double most_loss = 0.028;
  // Tokens that a request is assumed to reach. [0: two_families_alone 1.67 at 128]
  double advance = 256;
  // Discount per round: four thousand are remembered. [1: hard_far_alone 1.048]
  double ledger_discount = 1 - 1.0 / 4096;
  // Share of the budget reserved for the fastest arm, so that an unlucky start does not end in
  // plain decoding because other arms were tried. [0: one_request 1.086 at 128]
  double reserve = 0.5;
  // Probability of beating plain decoding from which an arm needs no budget. The prior alone does
  // not reach it. [never: figures move by up to 0.003]
  double sure = 0.98;
  // Quantile of the belief at which a proposer that has drafted is rated. [0: hard_far_alone 1.062]
  double pessimism = 0.1;
};

inline constexpr AdaptiveTuning kTuning;

}  // namespace outrider
