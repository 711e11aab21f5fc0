// Losslessness on the path that production takes: float rows from Warper, integer draft laws,
// Philox coins, several rounds. The joint law of a generation's first tokens is compared with the
// target's, cell by cell: counted by position, never by how many tokens a round accepted.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "common/spec/coins.h"
#include "common/spec/warper.h"
#include "tests/support/statistics.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

using Logits = std::function<std::vector<float>(std::span<const TokenId>)>;

// Logits are shifted by a constant that differs from row to row, as real ones are.
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
  SamplingParams draft_sampling = {};  // of the drafter, which need not agree
  DraftLawLimits limits = {};
  bool greedy_draft = false;       // argmax tokens without laws
  std::vector<int> lengths = {3};  // of the rounds in turn
  size_t total = 5;                // tokens of a generation that are counted
  uint64_t generations = 20000;
};

// Rows of a first-order or longer model are asked for again and again: each is computed once.
class Rows {
 public:
  Rows(const Logits& logits, const SamplingParams& params, int vocab)
      : logits_(logits), params_(params), vocab_(vocab) {}

  // The law behind `context`, its last `pending` tokens given to the Warper as pending ones.
  const std::vector<float>& At(const Tokens& context, size_t pending) {
    auto [at, is_new] = rows_.try_emplace({context, pending});
    if (is_new) {
      Warper warper(params_, vocab_, vocab_);
      for (size_t i = 0; i + pending < context.size(); ++i) warper.ObserveOutput(context[i]);
      at->second = logits_(context);
      warper.Warp(at->second, std::span(context).last(pending));
    }
    return at->second;
  }

 private:
  const Logits& logits_;
  SamplingParams params_;
  int vocab_;
  std::map<std::pair<Tokens, size_t>, std::vector<float>> rows_;
};

Tokens Generate(const Setting& s, Rule rule, uint64_t seed, Rows& target, Rows& draft) {
  Tokens context;
  for (uint32_t round = 0; context.size() < s.total; ++round) {
    const size_t committed = context.size();
    const int length = s.lengths[round % s.lengths.size()];
    std::vector<DraftLaw> laws;
    std::vector<float> rows;
    for (int i = 0; i < length; ++i) {
      const std::vector<float>& target_row = target.At(context, static_cast<size_t>(i));
      rows.insert(rows.end(), target_row.begin(), target_row.end());
      const std::vector<float>& probs = draft.At(context, static_cast<size_t>(i));
      if (s.greedy_draft) {
        const auto best = std::max_element(probs.begin(), probs.end());
        context.push_back(static_cast<TokenId>(best - probs.begin()));
      } else {
        laws.push_back(MakeDraftLaw(probs, s.limits));
        const double coin = Coin(seed, round, static_cast<uint32_t>(i), Purpose::kDraftToken);
        context.push_back(SampleDraftLaw(laws.back(), coin));
      }
    }
    const std::vector<float>& last = target.At(context, static_cast<size_t>(length));
    rows.insert(rows.end(), last.begin(), last.end());
    const Verdict verdict =
        VerifyRound(rule, std::span(context).subspan(committed), laws, rows, s.vocab, seed, round);
    context.resize(committed + static_cast<size_t>(verdict.accepted));
    context.push_back(verdict.next);
  }
  context.resize(s.total);
  return context;
}

void ExpectTargetLaw(const Setting& s, const std::string& name) {
  Rows target(s.target, s.sampling, s.vocab), draft(s.draft, s.draft_sampling, s.vocab);
  const ToyPair reference{s.vocab,
                          [&](std::span<const TokenId> context) {
                            const Tokens tokens(context.begin(), context.end());
                            const std::vector<float>& row = target.At(tokens, 0);
                            return Law(row.begin(), row.end());
                          },
                          nullptr};
  const Law want = TargetLaw(reference, s.total);
  for (const Rule rule : {Rule::kToken, Rule::kBlock}) {
    std::vector<int64_t> counts(want.size(), 0);
    for (uint64_t i = 0; i < s.generations; ++i) {
      ++counts[CellOf(Generate(s, rule, 1000003 * i + 17, target, draft), s.vocab)];
    }
    EXPECT_GT(ChiSquarePValue(counts, want), kFalseAlarm) << name << ", rule " << RuleName(rule);
  }
}

// The chain of tests/laws/oracle_test.cc: the paper's two-token toy hides several mistakes.
Setting FourTokens() {
  Setting s;
  s.vocab = 4;
  s.target = LogitsOf(Chain({{.5, .25, .125, .125},
                             {1. / 6, 1. / 3, 1. / 3, 1. / 6},
                             {.5, .3, .1, .1},
                             {.125, .125, .25, .5},
                             {.4, .2, .2, .2}}));
  s.draft = LogitsOf(Chain({{.25, .5, .125, .125},
                            {1. / 3, 1. / 6, 1. / 6, 1. / 3},
                            {.1, .1, .3, .5},
                            {.5, .25, .125, .125},
                            {.2, .4, .2, .2}}));
  return s;
}

TEST(SampledLaw, HoldsAtEveryDraftLength) {
  for (int g = 1; g <= 8; ++g) {
    Setting s;
    s.vocab = 2;
    s.target = LogitsOf(RandomModel(2, 41, 0));
    s.draft = LogitsOf(RandomModel(2, 42, 0));
    s.lengths = {g};
    ExpectTargetLaw(s, "draft length " + std::to_string(g));
  }
}

TEST(SampledLaw, HoldsOverChainedRoundsOfChangingLength) {
  Setting s = FourTokens();
  s.lengths = {3, 1, 0, 2};
  s.total = 6;
  ExpectTargetLaw(s, "lengths 3, 1, 0, 2");
}

TEST(SampledLaw, HoldsForModelsWithZerosAndLongMemory) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Setting s;
    s.target = LogitsOf(RandomModel(3, seed, 0.3));
    s.draft = LogitsOf(RandomModel(3, ~seed, 0.3));
    ExpectTargetLaw(s, "random pair " + std::to_string(seed));
  }
}

TEST(SampledLaw, HoldsForTruncatedDraftLaws) {
  Setting s = FourTokens();
  s.limits = {.mass = 1.f, .max_entries = 2};
  ExpectTargetLaw(s, "two entries");
  s.limits = {.mass = 0.6f, .max_entries = 64};
  ExpectTargetLaw(s, "mass 0.6");
}

TEST(SampledLaw, HoldsUnderTemperatureTopKTopPAndMinP) {
  Setting s = FourTokens();
  s.sampling = s.draft_sampling = {.temperature = 0.7f};
  ExpectTargetLaw(s, "temperature 0.7");
  s.sampling = {.temperature = 1.3f, .top_p = 0.8f};
  ExpectTargetLaw(s, "top-p 0.8 against an unwarped draft");
  s.sampling = s.draft_sampling = {.top_k = 2};
  ExpectTargetLaw(s, "top-k 2");
  s.sampling = s.draft_sampling = {.min_p = 0.45f};
  ExpectTargetLaw(s, "min-p 0.45");
}

// Every row of a round has its own penalties: those of the draft tokens in front of it count.
TEST(SampledLaw, HoldsUnderPenaltiesAndBias) {
  Setting s = FourTokens();
  s.sampling = {.repetition_penalty = 1.3f,
                .presence_penalty = 0.7f,
                .frequency_penalty = 0.4f,
                .logit_bias = {{2, 1.f}}};
  ExpectTargetLaw(s, "penalties, target only");
  s.draft_sampling = s.sampling;
  ExpectTargetLaw(s, "penalties, both");
}

TEST(SampledLaw, HoldsWhereBothModelsAgree) {
  Setting s = FourTokens();
  s.draft = s.target;
  ExpectTargetLaw(s, "p = q");
}

TEST(SampledLaw, HoldsForDisjointSupports) {
  Setting s = FourTokens();
  s.target = LogitsOf(Chain(std::vector<Law>(5, Law{0, 0.5, 0, 0.5})));
  s.draft = LogitsOf(Chain(std::vector<Law>(5, Law{0.75, 0, 0.25, 0})));
  ExpectTargetLaw(s, "disjoint supports");
}

TEST(SampledLaw, HoldsForAGreedyTarget) {
  Setting s = FourTokens();
  s.sampling = {.temperature = 0.f};
  ExpectTargetLaw(s, "greedy target");
}

TEST(SampledLaw, HoldsForGreedyDrafts) {
  Setting s = FourTokens();
  s.greedy_draft = true;
  ExpectTargetLaw(s, "greedy draft");
}

}  // namespace
}  // namespace outrider::testing
