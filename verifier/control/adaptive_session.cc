#include "verifier/control/adaptive_session.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "verifier/control/tuning.h"

namespace outrider {
namespace {

constexpr double kShortest = 1e-9;  // seconds, if nothing was measured yet

// E[max(x - z, 0)] of a standard normal x, z >= 0, from a table, as each round needs it for each
// arm.
double StandardImprovement(double z) {
  constexpr double kPerUnit = 64;
  constexpr size_t kEntries = 8 * 64;
  static const std::array<double, kEntries + 1> kTable = [] {
    std::array<double, kEntries + 1> table{};
    for (size_t i = 0; i < kEntries; ++i) {
      const double at = static_cast<double>(i) / kPerUnit;
      table[i] = std::exp(-at * at / 2) / std::sqrt(2 * std::numbers::pi) -
                 at / 2 * std::erfc(at / std::numbers::sqrt2);
    }
    return table;
  }();
  if (!(z < kEntries / kPerUnit)) return 0;
  const auto i = static_cast<size_t>(z * kPerUnit);
  return kTable[i] + (z * kPerUnit - static_cast<double>(i)) * (kTable[i + 1] - kTable[i]);
}

// E[max(x, 0)] of a normal x.
double Improvement(double mean, double deviation) {
  const double sure = std::max(0.0, mean);
  return deviation > 0 ? sure + deviation * StandardImprovement(std::abs(mean) / deviation) : sure;
}

// Plain rounds lost if no draft token is accepted.
double MostLoss(const Choice& choice) {
  return std::max(0.0, choice.seconds / choice.plain_seconds - 1);
}

}  // namespace

AdaptiveSession::AdaptiveSession(Adaptive& shared)
    : shared_(shared),
      eagerness_(shared.shared_ ? kTuning.shared_eagerness : kTuning.eagerness),
      families_(shared.families_.size()),
      after_(static_cast<size_t>(shared.arms_.proposers())) {
  candidates_.reserve(static_cast<size_t>(shared.arms_.size()));
  // Each family gets its share, and none more than half: with many families, trying all of them
  // again and again would cost more than it finds.
  const double share = 1 / std::max(2.0, static_cast<double>(families_.size()) - 1);
  for (size_t f = 0; f < families_.size(); ++f) {
    families_[f].turn = share * shared.TurnRate(static_cast<int>(f));
  }
}

double AdaptiveSession::CatchUp(int arm, const Context& context) const {
  const auto proposer = static_cast<size_t>(FactsOf(arm).proposer);
  if (proposer >= context.streams.size()) return 0;
  const double token = context.streams[proposer].catch_up_token;
  return token > 0 ? token * after_[proposer] : 0;
}

ArmSet::Facts AdaptiveSession::FactsNow(int arm, const Context& context) const {
  ArmSet::Facts facts = FactsOf(arm);
  const auto proposer = static_cast<size_t>(facts.proposer);
  if (facts.sequences != 1 || proposer >= context.streams.size()) return facts;
  facts.length = std::min(facts.length, context.streams[proposer].longest);
  facts.rows = 1 + facts.length;
  return facts;
}

size_t AdaptiveSession::Estimate(const Context& context, ArmMask allowed, double unit) {
  for (Family& own : families_) own.allowed = false;
  candidates_.clear();
  size_t fastest = 0;
  for (int i = 0; i < shared_.arms_.size(); ++i) {
    if ((allowed & ArmSet::Bit(i)) == 0) continue;
    const ArmSet::Facts facts = FactsNow(i, context);
    Family& own = family(i);
    if (!own.allowed) {
      own.allowed = true;
      if (!own.touched) own.belief = shared_.Prior(facts.family);
      own.trials = TrialsAfter(own.belief);
      own.correction = shared_.FamilyCorrection(facts.family, unit);
    }
    Candidate c{.arm = i, .facts = facts};
    const double repeated = std::max(kShortest, shared_.costs_.RoundSeconds(facts, context));
    const double begins = i == last_arm_ ? 0 : shared_.costs_.EarlySeconds(facts, context);
    c.modelled = repeated + begins;
    const double correction = shared_.Correction(i, own.correction, unit);
    c.expected = c.modelled * correction;
    c.catch_up = CatchUp(i, context);
    c.begins = c.catch_up + begins * correction;
    c.seconds = repeated * correction + c.begins / kTuning.stay;
    c.tokens = MomentsOf(profile(i).TokensAt(facts.length), own.belief);
    const int last = context.remaining > 0 ? context.remaining - 1 : facts.length;
    c.tokens_now = last < facts.length ? profile(i).Tokens(own.belief, last) : c.tokens.mean;
    candidates_.push_back(c);
    if (c.speed() > candidates_[fastest].speed()) fastest = candidates_.size() - 1;
  }
  return fastest;
}

void AdaptiveSession::Compare(const Candidate& fastest) {
  double rival = 0;  // tokens a second of the fastest arm of another family
  for (Family& f : families_) f.mean = f.deviation = -1e300;
  const int fastest_family = fastest.facts.family;
  const Belief& fastest_tokens = profile(fastest.arm).TokensAt(fastest.facts.length);
  for (Candidate& c : candidates_) {
    const ArmSet::Facts& facts = c.facts;
    Family& own = family(c.arm);
    c.mean = c.speed() - fastest.speed();
    if (facts.family != fastest_family) rival = std::max(rival, c.speed());
    if (facts.family == fastest_family) {
      // All arms of a family depend on the same level, so they are compared level by level.
      const Belief& tokens = profile(c.arm).TokensAt(facts.length);
      Belief ahead;
      for (size_t k = 0; k < kLevels; ++k) {
        ahead[k] = tokens[k] / c.seconds - fastest_tokens[k] / fastest.seconds;
      }
      c.deviation = std::sqrt(MomentsOf(ahead, own.belief).variance);
    } else {
      c.deviation = std::sqrt(c.tokens.variance) / c.seconds;
    }
    if (c.mean + c.deviation > own.mean + own.deviation) {
      own.mean = c.mean;
      own.deviation = c.deviation;
    }
  }
  // The value of learning that the fastest arm is slower than another.
  for (Candidate& c : candidates_) {
    if (c.arm != fastest.arm) continue;
    c.mean = rival - c.speed();
    c.deviation = std::sqrt(c.tokens.variance) / c.seconds;
  }
}

double AdaptiveSession::EndSpeed(const Candidate& fastest, int remaining) const {
  if (remaining <= 0 || remaining > shared_.arms_.max_length()) return fastest.speed();
  double speed = 0;
  for (const Candidate& c : candidates_) {
    const double rounds = 1 + std::max(0.0, remaining - c.tokens_now) / c.tokens.mean;
    speed = std::max(speed, remaining / (rounds * c.seconds));
  }
  return speed;
}

double AdaptiveSession::WorthOfTrying(const Candidate& c, double speed, double horizon,
                                      double least) {
  const Family& own = family(c.arm);
  horizon *= shared_.family(c.facts.family).offered;
  // An upper bound: as if one pull revealed everything.
  const double most =
      std::max(Improvement(c.mean, c.deviation), Improvement(own.mean, own.deviation));
  if (eagerness_ * horizon * most - speed * c.begins <= std::max(0.0, least)) return 0;
  const double trials = profile(c.arm).Trials(own.belief, c.facts.length);
  if (trials <= 0) return 0;
  const double loss = speed * c.seconds - c.tokens.mean;
  double worth = 0;
  for (const double pulls : {1.0, 2.0, 4.0, 8.0}) {
    // How far the belief's mean is expected to move by then.
    const double share = std::sqrt(pulls * trials / (pulls * trials + own.trials));
    const double gain = std::max(Improvement(c.mean, share * c.deviation),
                                 Improvement(own.mean, share * own.deviation));
    worth = std::max(worth, (eagerness_ * horizon * gain - speed * c.begins) / pulls - loss);
  }
  return worth > 0 ? worth + loss : 0;
}

double AdaptiveSession::FewTokens(const Candidate& c) {
  // Only the prior speaks for it.
  if (!family(c.arm).touched) return 1;
  const Belief& belief = family(c.arm).belief;
  size_t k = 0;
  for (double below = belief[0]; below < kTuning.pessimism && k + 1 < kLevels; below += belief[k]) {
    ++k;
  }
  return profile(c.arm).TokensAt(c.facts.length)[k];
}

bool AdaptiveSession::SurelyFaster(const Candidate& c, double plain_seconds) {
  const Belief& belief = family(c.arm).belief;
  const Belief& tokens = profile(c.arm).TokensAt(c.facts.length);
  double sure = 0;
  // Tokens rise with the level.
  for (size_t k = kLevels; k > 0 && tokens[k - 1] * plain_seconds > c.seconds; --k) {
    sure += belief[k - 1];
  }
  return sure >= kTuning.sure;
}

void AdaptiveSession::ObserveRepeated() {
  shared_.Account(1, 1);
  ++repeated_;
}

void AdaptiveSession::Turn(int rounds) {
  for (size_t f = 0; f < families_.size(); ++f) {
    Family& own = families_[f];
    if (!own.touched) continue;
    const double share = rounds == 1 ? own.turn : 1 - std::pow(1 - own.turn, rounds);
    Mix(shared_.AfterTurn(static_cast<int>(f)), share, &own.belief);
  }
}

Choice AdaptiveSession::Choose(const Context& context) {
  if (repeated_ > 0) Turn(std::exchange(repeated_, 0));
  const int plain = shared_.arms_.plain();
  const ArmMask allowed = (context.allowed & shared_.arms_.all()) | ArmSet::Bit(plain);
  const double unit = std::max(kShortest, shared_.costs_.RoundSeconds(FactsOf(plain), context));
  const size_t fastest_index = Estimate(context, allowed, unit);
  const double plain_seconds = unit * shared_.Correction(plain, family(plain).correction, unit);
  const Candidate fastest = candidates_[fastest_index];
  Compare(fastest);
  for (size_t f = 0; f < families_.size(); ++f) {
    double& offered = shared_.families_[f].offered;
    offered += kTuning.offered_gain * ((families_[f].allowed ? 1 : 0) - offered);
  }

  const double speed = fastest.speed();
  const double remaining = context.remaining > 0 ? context.remaining : kTuning.horizon_tokens;
  const double horizon =
      (shared_.shared_ ? kTuning.horizon_tokens : std::min(remaining, kTuning.horizon_tokens)) /
      speed;
  const double end_speed = EndSpeed(fastest, context.remaining);
  const double allowance = shared_.Allowance(remaining);
  const bool reserves = fastest.facts.sequences > 0 && !SurelyFaster(fastest, plain_seconds);
  const double reserve = reserves ? kTuning.reserve * shared_.Budget(remaining) : 0;

  Choice choice{.arm = plain,
                .seconds = plain_seconds,
                .plain_seconds = plain_seconds,
                .modelled_seconds = unit,
                .tokens = 1,
                .best_speed = speed};
  double best_score = -std::numeric_limits<double>::infinity();
  const auto consider = [&](const Candidate& c) {
    const double exploits = c.tokens_now - end_speed * c.seconds;
    const double score = exploits + WorthOfTrying(c, speed, horizon, best_score - exploits);
    if (score <= best_score) return;
    const double loss = c.seconds / plain_seconds - FewTokens(c);
    const double most = allowance - (c.arm != fastest.arm ? reserve : 0);
    if (c.facts.sequences > 0 && loss > most && !SurelyFaster(c, plain_seconds)) return;
    best_score = score;
    choice.arm = c.arm;
    choice.length = c.facts.length;
    choice.catches_up = c.catch_up > 0;
    choice.seconds = c.expected;
    choice.modelled_seconds = c.modelled;
    choice.tokens = c.tokens_now;
  };
  // Starts with the usual winner, which often makes the others' value irrelevant.
  consider(candidates_[fastest_index]);
  for (const Candidate& c : candidates_) {
    if (c.arm != fastest.arm) consider(c);
  }
  choice.others_seconds = shared_.costs_.OthersSeconds(FactsNow(choice.arm, context), context);
  last_arm_ = choice.arm;
  ++shared_.pending_;
  shared_.pledged_ += MostLoss(choice);
  return choice;
}

double AdaptiveSession::SecondsTaken(const Choice& choice, const Outcome& outcome) const {
  // Others may have drafted meanwhile or not. If not, the cost of this draft's rows to them, were
  // they to draft as well, is in the model alone.
  const double shared = std::min(choice.modelled_seconds, outcome.seconds + choice.others_seconds);
  return std::max(outcome.seconds, shared);
}

void AdaptiveSession::Observe(const Choice& choice, const Outcome& outcome) {
  if (--shared_.pending_ == 0) {
    shared_.pledged_ = 0;  // against rounding errors
  } else {
    shared_.pledged_ -= MostLoss(choice);
  }
  if (!Teaches(shared_.arms_, choice, outcome)) return;
  const ArmSet::Facts& facts = FactsOf(choice.arm);
  const auto proposer = static_cast<size_t>(facts.proposer);
  const int drafted = outcome.drafted < 0 ? choice.length : outcome.drafted;
  const bool caught_up = choice.catches_up;
  for (int& tokens : after_) tokens += outcome.emitted;
  after_[proposer] = 0;

  Turn(1);
  if (drafted > 0) {
    Family& own = family(choice.arm);
    if (!own.touched) own.belief = shared_.Prior(facts.family);
    own.touched = true;
    const double mean = MeanLevel(own.belief);
    profile(choice.arm).Update(outcome.accepted, drafted, &own.belief);
    shared_.Learn(facts.family, own.belief, outcome.accepted, drafted, mean);
  }
  const bool drafts = facts.sequences > 0;
  double seconds = choice.seconds;
  if (IsSeconds(outcome.seconds)) {
    const double taken = drafts ? SecondsTaken(choice, outcome) : outcome.seconds;
    // Rounds that were cut, or in which the drafter caught up, are not comparable.
    if (drafted == choice.length && !(drafts && caught_up)) {
      shared_.LearnSeconds(choice.arm, taken, choice.modelled_seconds);
    }
    // Plain rounds also stall. They count as what they usually take.
    const double stalled = taken - kTuning.stall * choice.seconds;
    seconds = taken;
    if (drafts && stalled > 0) {
      seconds -= choice.plain_seconds * shared_.Forgive(stalled / choice.plain_seconds);
    }
  }
  shared_.Account(drafts ? seconds / choice.plain_seconds : 1, outcome.emitted);
}

}  // namespace outrider
