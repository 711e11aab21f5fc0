// Losslessness on the production path: float rows from SequenceSampling, integer draft
// distributions, Philox random numbers, several rounds of trees. The joint distribution of a
// generation's first tokens is compared with the target's cell by cell, counted by position and not
// by how many tokens a round accepted.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "common/math/coins.h"
#include "common/rules/host_rounds.h"
#include "common/spec/race.h"
#include "common/spec/sequence_sampling.h"
#include "common/spec/stop_rule.h"
#include "tests/support/sequence_rows.h"
#include "tests/support/statistics.h"
#include "tests/support/stops.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

using Logits = std::function<std::vector<float>(std::span<const TokenId>)>;

// Logits are shifted by a constant that differs from row to row, as in real models.
Logits LogitsOf(Model model) {
  return [model](std::span<const TokenId> context) {
    std::vector<float> row;
    for (const double p : model(context)) {
      row.push_back(static_cast<float>(std::log(p) + 3.0 - static_cast<double>(context.size())));
    }
    return row;
  };
}

struct Setting {
  int vocab = 3;
  Logits target;
  Logits draft;
  SamplingParams sampling = {};        // of the target
  SamplingParams draft_sampling = {};  // of the drafter, which may differ
  DraftDistributionLimits limits = {};
  bool argmax_draft = false;  // the most likely tokens, without distributions
  size_t total = 5;           // counted tokens of a generation
  uint64_t generations = 20000;
};

// A rule with the shapes of its rounds, which are used in turn.
struct Plan {
  Rule rule;
  std::vector<DraftShape> shapes;
  StopRule stop = {};
};

const DraftShape kTree{.length = 3, .branching = {2, 1, 2}};
const DraftShape kBush{.length = 2, .branching = {2, 2}};

std::vector<Plan> EveryRule() {
  return {{Rule::kToken, {Sequences(1, 3)}},
          {Rule::kBlock, {Sequences(1, 3)}},
          {Rule::kSpecTr, {Sequences(2, 3)}},
          {Rule::kSpecTr, {kTree, Sequences(4, 1)}},
          {Rule::kMultiRound, {Sequences(2, 2), kBush}},
          {Rule::kMultiPathBlock, {Sequences(4, 2)}},
          {Rule::kMultiPathBlock, {kTree, Sequences(2, 2)}},
          {Rule::kGumbel, {Sequences(2, 2), kTree}}};
}

// Rows are requested repeatedly, so each is computed once.
class Rows {
 public:
  Rows(const Logits& logits, const SamplingParams& params, int vocab)
      : logits_(logits), params_(params), vocab_(vocab) {}

  // The distribution after `context`, whose last `pending` tokens are passed to SequenceSampling as
  // pending ones.
  const std::vector<float>& At(const Tokens& context, size_t pending) {
    auto [it, is_new] = rows_.try_emplace({context, pending});
    if (is_new) {
      SequenceSampling sampling(params_, vocab_, vocab_);
      for (size_t i = 0; i + pending < context.size(); ++i) sampling.ObserveOutput(context[i]);
      it->second = logits_(context);
      MakeDistribution(sampling, it->second, std::span(context).last(pending));
    }
    return it->second;
  }

 private:
  const Logits& logits_;
  SamplingParams params_;
  int vocab_;
  std::map<std::pair<Tokens, size_t>, std::vector<float>> rows_;
};

Tokens After(const Tokens& context, const DraftTree& tree, int node) {
  Tokens tokens = context;
  const Tokens path = tree.Path(node);
  tokens.insert(tokens.end(), path.begin(), path.end());
  return tokens;
}

// Drafts whole depths, like a drafter. For sampled tokens, the trial of a random number is the
// token's index at its depth.
DraftTree MakeDraft(const Setting& s, Rule rule, const DraftShape& shape, const StopRule& stop,
                    const Tokens& context, uint64_t seed, uint32_t round, Rows& draft) {
  DraftTree tree;
  std::vector<bool> last = {false};  // by node: nothing is drafted after it
  std::vector<int> times = {1};
  uint32_t trials[8] = {};
  for (int node = 0; node <= tree.size(); ++node) {
    const int depth = tree.depth(node);
    if (depth == shape.length || last[static_cast<size_t>(node)]) continue;
    const Tokens tokens = After(context, tree, node);
    const std::vector<float>& probs = draft.At(tokens, static_cast<size_t>(depth));
    Tokens drawn;
    bool stops = StopsAtRow(stop, probs);
    if (s.argmax_draft) {
      std::vector<float> left = probs;
      for (int i = 0; i < shape.draws(depth); ++i) {
        drawn.push_back(
            static_cast<TokenId>(std::max_element(left.begin(), left.end()) - left.begin()));
        left[static_cast<size_t>(drawn.back())] = -1;
      }
    } else if (rule == Rule::kGumbel) {
      drawn = RaceWinners(probs, shape.draws(depth), seed, static_cast<uint32_t>(tokens.size()));
    } else {
      const DraftDistribution distribution = MakeDraftDistribution(probs, s.limits);
      for (int i = 0; i < times[static_cast<size_t>(node)] * shape.draws(depth); ++i) {
        const double coin =
            Coin(seed, round, static_cast<uint32_t>(depth), Purpose::kDraftToken, trials[depth]++);
        drawn.push_back(SampleDraftDistribution(distribution, coin));
      }
      stops = Stops(stop, distribution);
      tree.SetDistribution(node, distribution);
    }
    for (const TokenId token : drawn) {
      const auto child = static_cast<size_t>(tree.AddDraw(node, token));
      last.resize(std::max(last.size(), child + 1), stops);
      times.resize(std::max(times.size(), child + 1));
      ++times[child];
    }
  }
  const bool with_distributions = !s.argmax_draft && rule != Rule::kGumbel;
  EXPECT_TRUE(Validate(tree, shape, with_distributions, s.vocab).ok());
  return tree;
}

Tokens Generate(const Setting& s, const Plan& plan, uint64_t seed, Rows& target, Rows& draft) {
  Tokens context;
  for (uint32_t round = 0; context.size() < s.total; ++round) {
    const DraftShape& shape = plan.shapes[round % plan.shapes.size()];
    const DraftTree tree = MakeDraft(s, plan.rule, shape, plan.stop, context, seed, round, draft);
    const TargetRowFn row = [&](int node) -> std::span<const float> {
      return target.At(After(context, tree, node), static_cast<size_t>(tree.depth(node)));
    };
    const Verdict verdict = VerifyRound(plan.rule, tree, row, s.vocab, seed, round,
                                        static_cast<uint32_t>(context.size()));
    context = After(context, tree, verdict.node);
    context.push_back(verdict.next);
  }
  context.resize(s.total);
  return context;
}

void ExpectTargetDistribution(const Setting& s, const std::string& name,
                              const std::vector<Plan>& plans = EveryRule()) {
  Rows target(s.target, s.sampling, s.vocab), draft(s.draft, s.draft_sampling, s.vocab);
  const EnumeratedPair reference{s.vocab,
                                 [&](std::span<const TokenId> context) {
                                   const Tokens tokens(context.begin(), context.end());
                                   const std::vector<float>& row = target.At(tokens, 0);
                                   return OutputDistribution(row.begin(), row.end());
                                 },
                                 nullptr};
  const OutputDistribution want = TargetDistribution(reference, s.total);
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    std::vector<int64_t> counts(want.size(), 0);
    for (uint64_t i = 0; i < s.generations; ++i) {
      const uint64_t seed = 1000003 * i + 17;
      ++counts[CellOf(Generate(s, plans[plan], seed, target, draft), s.vocab)];
    }
    EXPECT_GT(ChiSquarePValue(counts, want), kFalseAlarm)
        << name << ", " << RuleName(plans[plan].rule) << ", plan " << plan;
  }
}

// The paper's two-token toy hides several mistakes; this chain does not.
Setting FourTokenSetting() {
  Setting s;
  s.vocab = 4;
  s.target = LogitsOf(FourTokens().target);
  s.draft = LogitsOf(FourTokens().draft);
  s.total = 4;
  return s;
}

TEST(SampledDistribution, HoldsAtEveryDraftLength) {
  for (int g = 1; g <= 8; ++g) {
    Setting s;
    s.vocab = 2;
    s.target = LogitsOf(RandomModel(2, 41, 0));
    s.draft = LogitsOf(RandomModel(2, 42, 0));
    ExpectTargetDistribution(
        s, "draft length " + std::to_string(g),
        {{Rule::kToken, {Sequences(1, g)}}, {Rule::kBlock, {Sequences(1, g)}}});
  }
}

TEST(SampledDistribution, HoldsForEveryRuleAndShape) {
  Setting s = FourTokenSetting();
  std::vector<Plan> plans;
  for (const Rule rule : {Rule::kSpecTr, Rule::kMultiRound, Rule::kMultiPathBlock, Rule::kGumbel}) {
    for (const DraftShape& shape :
         {Sequences(1, 3), Sequences(2, 2), Sequences(4, 1), Sequences(4, 3), kTree, kBush}) {
      plans.push_back({rule, {shape}});
    }
  }
  ExpectTargetDistribution(s, "every shape", plans);
}

TEST(SampledDistribution, HoldsOverRoundsOfChangingShape) {
  Setting s = FourTokenSetting();
  s.total = 6;
  std::vector<Plan> plans;
  for (const Rule rule : {Rule::kToken, Rule::kBlock}) {
    plans.push_back({rule, {Sequences(1, 3), Sequences(1, 1), Sequences(1, 0), Sequences(1, 2)}});
  }
  for (const Rule rule : {Rule::kSpecTr, Rule::kMultiRound, Rule::kMultiPathBlock}) {
    plans.push_back({rule, {Sequences(3, 2), kBush, Sequences(1, 0), Sequences(1, 2)}});
  }
  ExpectTargetDistribution(s, "chained rounds", plans);
}

// Paths end depending on the draft's row, before sampling; some rounds are complete, some are cut.
TEST(SampledDistribution, HoldsUnderStopRules) {
  for (const StopRule& stop : {StopRule{.kind = StopRule::Kind::kConfidence, .threshold = 0.5f},
                               StopRule{.kind = StopRule::Kind::kEntropy, .threshold = 0.9f}}) {
    std::vector<Plan> plans = EveryRule();
    for (Plan& plan : plans) plan.stop = stop;
    for (uint64_t seed = 0; seed < 2; ++seed) {
      Setting s;
      s.target = LogitsOf(RandomModel(3, seed, 0));
      s.draft = LogitsOf(RandomModel(3, ~seed, 0));
      ExpectTargetDistribution(s, std::string(StopRuleName(stop.kind)), plans);
    }
  }
}

TEST(SampledDistribution, HoldsForZerosAndLongMemory) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Setting s;
    s.target = LogitsOf(RandomModel(3, seed, 0.3));
    s.draft = LogitsOf(RandomModel(3, ~seed, 0.3));
    ExpectTargetDistribution(s, "random pair " + std::to_string(seed));
  }
}

TEST(SampledDistribution, HoldsForTruncatedDrafts) {
  Setting s = FourTokenSetting();
  s.limits = {.mass = 1.f, .max_entries = 2};
  ExpectTargetDistribution(s, "two entries");
  s.limits = {.mass = 0.6f, .max_entries = 64};
  ExpectTargetDistribution(s, "mass 0.6");
}

TEST(SampledDistribution, HoldsUnderTemperature) {
  Setting s = FourTokenSetting();
  s.sampling = s.draft_sampling = {.temperature = 0.7f};
  ExpectTargetDistribution(s, "temperature 0.7");
}

TEST(SampledDistribution, HoldsUnderTopP) {
  Setting s = FourTokenSetting();
  s.sampling = {.temperature = 1.3f, .top_p = 0.8f};
  ExpectTargetDistribution(s, "top-p 0.8 against an untruncated draft");
}

TEST(SampledDistribution, HoldsUnderTopKMinP) {
  Setting s = FourTokenSetting();
  s.sampling = s.draft_sampling = {.top_k = 2};
  ExpectTargetDistribution(s, "top-k 2");
  s.sampling = s.draft_sampling = {.min_p = 0.45f};
  ExpectTargetDistribution(s, "min-p 0.45");
}

// Every row of a round has its own penalties, which count the draft tokens before it.
TEST(SampledDistribution, HoldsUnderPenaltiesAndBias) {
  Setting s = FourTokenSetting();
  s.sampling = {.repetition_penalty = 1.3f,
                .presence_penalty = 0.7f,
                .frequency_penalty = 0.4f,
                .logit_bias = {{2, 1.f}}};
  ExpectTargetDistribution(s, "penalties, target only");
  s.draft_sampling = s.sampling;
  ExpectTargetDistribution(s, "penalties, both");
}

TEST(SampledDistribution, HoldsWhereBothModelsAgree) {
  Setting s = FourTokenSetting();
  s.draft = s.target;
  ExpectTargetDistribution(s, "p = q");
}

TEST(SampledDistribution, HoldsForDisjointSupports) {
  Setting s = FourTokenSetting();
  s.target =
      LogitsOf(Chain(std::vector<OutputDistribution>(5, OutputDistribution{0, 0.5, 0, 0.5})));
  s.draft =
      LogitsOf(Chain(std::vector<OutputDistribution>(5, OutputDistribution{0.75, 0, 0.25, 0})));
  ExpectTargetDistribution(s, "disjoint supports");
}

TEST(SampledDistribution, HoldsForAGreedyTarget) {
  Setting s = FourTokenSetting();
  s.sampling = {.temperature = 0.f};
  s.generations = 2000;
  ExpectTargetDistribution(s, "greedy target");
}

// Point masses: one token per node, since several would be distinct and not independent samples.
TEST(SampledDistribution, HoldsForArgmaxDrafts) {
  Setting s = FourTokenSetting();
  s.argmax_draft = true;
  std::vector<Plan> plans;
  for (const RuleTraits& rule : kRuleTraits) plans.push_back({rule.rule, {Sequences(1, 3)}});
  ExpectTargetDistribution(s, "argmax draft", plans);
}

// The output of the race is a function of seed and target: the same without a draft, with a good
// one, and with an adversarial one.
TEST(SampledTokens, GumbelTextIgnoresDrafts) {
  const Setting s = FourTokenSetting();
  Rows target(s.target, s.sampling, s.vocab), draft(s.draft, s.draft_sampling, s.vocab);
  int accepted = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Tokens alone;
    while (alone.size() < 12) {
      alone.push_back(RaceWinner(target.At(alone, 0), seed, static_cast<uint32_t>(alone.size())));
    }
    for (const std::vector<DraftShape>& shapes :
         {std::vector{Sequences(1, 3)}, {Sequences(3, 2), kTree}, {Sequences(1, 0)}}) {
      Setting longer = s;
      longer.total = 12;
      EXPECT_EQ(Generate(longer, {Rule::kGumbel, shapes}, seed, target, draft), alone) << seed;
    }
    Tokens context;
    for (uint32_t round = 0; context.size() < 12; ++round) {
      DraftTree tree;  // any tokens anywhere
      for (uint32_t i = 0; i < 12; ++i) {
        const double coin = Coin(seed, round, i, Purpose::kDraftToken);
        const auto node = static_cast<int>(coin * (tree.size() + 1));
        tree.AddDraw(node, static_cast<TokenId>(coin * 9973) % 4);
      }
      const TargetRowFn row = [&](int node) -> std::span<const float> {
        return target.At(After(context, tree, node), static_cast<size_t>(tree.depth(node)));
      };
      const Verdict verdict = VerifyRound(Rule::kGumbel, tree, row, 4, seed, round,
                                          static_cast<uint32_t>(context.size()));
      context = After(context, tree, verdict.node);
      context.push_back(verdict.next);
      accepted += verdict.accepted;
    }
    context.resize(12);
    EXPECT_EQ(context, alone) << seed;
  }
  EXPECT_GT(accepted, 1000);
}

// A race draft with k tokens agrees more often than one with a single token.
TEST(SampledTokens, MoreGumbelWinnersAreAcceptedMore) {
  const Setting s = FourTokenSetting();
  Rows target(s.target, s.sampling, s.vocab), draft(s.draft, s.draft_sampling, s.vocab);
  int accepted[3] = {};
  for (int k = 1; k <= 3; ++k) {
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      const DraftTree tree = MakeDraft(s, Rule::kGumbel, Sequences(k, 1), {}, {}, seed, 0, draft);
      const TargetRowFn row = [&](int node) -> std::span<const float> {
        return target.At(tree.Path(node), 0);
      };
      accepted[k - 1] += VerifyRound(Rule::kGumbel, tree, row, 4, seed, 0, 0).accepted;
    }
  }
  EXPECT_GT(accepted[0], 1000);  // at least (1 - d) / (1 + d) = 3 / 5 of the rounds
  EXPECT_GT(accepted[1], accepted[0] + 100);
  EXPECT_GT(accepted[2], accepted[1] + 50);
}

}  // namespace
}  // namespace outrider::testing
