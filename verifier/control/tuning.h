// What the adaptive policy (adaptive.h) is tuned by.
//
// All were chosen on the scenarios of tests/control (`ctest -R Scenarios`). In brackets: what
// becomes of the scenario that is hurt most where the constant has no effect, as its time over that
// of the best fixed arm. The bounds are 1.03 at 512 tokens and 1.08 at 128. A scenario's times are
// exact: of constants that keep noise out it says nothing.
#pragma once

namespace outrider {

struct AdaptiveTuning {
  // A family's prior. More weight on what was seen: good arms are found sooner, and luck counts for
  // more.
  //
  // Rounds that count for half of what is believed of a family. [0: far_drafter 1.15 at 128]
  double prior_rounds = 8;
  // How much of what is not known of a family is taken from the others. [0: one_request 1.031]
  double from_others = 0.15;
  // Weight of all sessions taken as one; the rest is how sessions differ. Sessions of one client
  // are mostly alike. [0: five_close 1.042]
  double pooled = 0.8;
  // Rounds that a family's prior remembers. [no end: one figure in six moves, by 0.001 at most]
  double memory_rounds = 1000;
  // Of a round: that all sessions change. [0: figures move by up to 0.010, either way]
  double pool_leak = 1.0 / 2000;

  // Text that turns. Higher: a change is noticed sooner, and what was learned is lost sooner.
  //
  // Of a round: that the text turns and some family is better than it was. [0: drift_swap 1.46]
  double turn = 1.0 / 80;
  // After a change point most of the prior goes to what was seen in earlier sessions.
  // [1: hard_far_alone 1.049; 0: one_request 1.042]
  double turn_own = 0.8;

  // How the probability of acceptance depends on the depth (DepthProfile).
  //
  // Of a round: two thousand are remembered. [1: figures move by up to 0.004]
  double profile_discount = 0.9995;
  // Trials that say that all depths are alike. [0: hard_far_alone 1.037]
  double profile_prior = 32;
  // Rounds between two updates of the tables: saves time. [1: hard_far_alone 1.063]
  int tabulate_every = 32;

  // Measured over modelled seconds of a family: against noise.
  //
  // Of a chosen round, of whatever family: a hundred are remembered, so that a family that was slow
  // while the machine was busy is not left out for good.
  double time_discount = 0.99;
  // Plain rounds that took what the cost model says.
  double time_prior = 4;
  // Of what a round usually takes: what is beyond is a stall.
  double stall = 2;
  // Plain rounds that stalls may cost without being charged, as many fade as the ledger forgets. A
  // single one must not keep drafts away for a thousand tokens, nor may they hide what drafts cost.
  double most_forgiven = 32;

  // What trying an arm is worth. Higher: more is tried, and more is lost by it.
  //
  // Of what trying an arm may gain, as later rounds could learn the same. [1: hard_far_alone 1.095]
  double eagerness = 0.5;
  // Tokens for which a lesson is trusted to hold. [no end: many_arms 1.27 at 128]
  double horizon_tokens = 256;
  // Rounds that a drafter stays once it is asked: catching up is spread over them. No scenario has
  // a drafter that must catch up.
  double stay = 16;

  // The account of time lost against plain decoding. Higher: more may be risked.
  //
  // Of tokens: 3 % and a margin for what the cost model gets wrong. [0.03: nothing_accepted takes
  // 1.031 of plain decoding]
  double most_loss = 0.028;
  // Tokens that a request is trusted to come to. [0: two_families_alone 1.67 at 128]
  double advance = 256;
  // Of a round: four thousand are remembered. [1: hard_far_alone 1.048]
  double ledger_discount = 1 - 1.0 / 4096;
  // Of what may be risked: kept for the fastest arm, as an unlucky start must not end in plain
  // decoding because other arms were tried, too. [0: one_request 1.086 at 128]
  double reserve = 0.5;
  // Probability that an arm beats plain decoding with which it needs no budget. Ignorance alone
  // does not reach it. [never: figures move by up to 0.003]
  double sure = 0.98;
  // A proposer that has drafted is taken for worse than it seems, with this probability for better.
  // [0: hard_far_alone 1.062]
  double pessimism = 0.1;
};

inline constexpr AdaptiveTuning kTuning;

}  // namespace outrider
