// Exact losslessness of drafts from proposers without a model: their tokens are a function of the
// text before the round, their distributions point masses. Random numbers are integrated out
// through the production rules in double, over the tree that ToDraft makes.
#include <gtest/gtest.h>

#include <string>

#include "common/rules/host_rounds.h"
#include "tests/exactness/tolerance.h"
#include "tests/support/toy_pair.h"
#include "verifier/propose/local_proposer.h"
#include "verifier/propose/point_draft.h"

namespace outrider::testing {
namespace {

constexpr Rule kEach[] = {Rule::kToken, Rule::kBlock, Rule::kSpecTr, Rule::kMultiRound,
                          Rule::kMultiPathBlock};

// A round over a draft as it is sent, after a context: the target in double, the draft's
// distributions with their integer weights.
class DraftedRound {
 public:
  using Real = double;

  DraftedRound(const EnumeratedPair& pair, std::span<const TokenId> context, DraftTree tree)
      : tree_(std::move(tree)), vocab_(pair.vocab) {
    for (int node = 0; node <= tree_.size(); ++node) {
      Tokens text(context.begin(), context.end());
      for (const TokenId token : tree_.Path(node)) text.push_back(token);
      target_.push_back(pair.target(text));
    }
  }

  const DraftTree& tree() const { return tree_; }
  int vocab() const { return vocab_; }
  std::span<const int32_t> draws(int node) const { return tree_.draws(node); }
  TokenId token(int node) const { return tree_.token(node); }
  int depth(int node) const { return tree_.depth(node); }
  int max_depth() const { return tree_.max_depth(); }
  int max_entries() const { return vocab_; }
  SparseRow<uint32_t> draft(int node) const {
    const DraftDistribution& distribution = tree_.distribution(node);
    return {distribution.ids.data(), distribution.weights.data(),
            static_cast<int>(distribution.ids.size()), 1.0 / kDraftWeightTotal};
  }
  const double* target(int node) const { return target_[static_cast<size_t>(node)].data(); }

 private:
  DraftTree tree_;
  int vocab_;
  std::vector<OutputDistribution> target_;
};

using MakeDraft = std::function<DraftTree(std::span<const TokenId> context, int length)>;

Emitter EmitterOf(Rule rule, const MakeDraft& make_draft) {
  return [=](const EnumeratedPair& pair, std::span<const TokenId> context, const DraftShape& shape,
             const Emit& emit) {
    const DraftTree tree = make_draft(context, shape.length);
    Enumeration enumeration;
    do {
      DraftedRound round(pair, context, tree);
      EnumeratingCoins coins(&enumeration, /*branch_next=*/true);
      const Verdict verdict = Verify(rule, round, coins);
      Tokens tokens = round.tree().Path(verdict.node);
      tokens.push_back(verdict.next);
      emit(tokens, verdict.accepted, enumeration.probability());
    } while (enumeration.Advance());
  };
}

// The draft of a session with this prompt, after its output.
class ProposerDraft {
 public:
  ProposerDraft(LocalSource source, const Tokens& prompt, const std::vector<Tokens>& earlier)
      : source_(source), prompt_(prompt), store_({.max_tokens = 8000}) {
    options_.lookup.min_n = 1;
    options_.suffix_min_match = 1;
    options_.suffix_length_per_match = 8;
    options_.suffix_min_probability = 0;
    for (const Tokens& text : earlier) store_.Add("", text);
  }

  DraftTree operator()(std::span<const TokenId> context, int length) {
    LocalProposer proposer(options_, &store_, "");
    proposer.Observe(prompt_);
    proposer.Observe(context);
    const Tokens& tokens = proposer.Propose(source_, length).tokens;
    drafted_ += tokens.size();
    return ToDraft(tokens, DraftKind::kSampled);
  }
  size_t drafted() const { return drafted_; }

 private:
  LocalSource source_;
  Tokens prompt_;
  LocalProposerOptions options_;
  SuffixStore store_;
  size_t drafted_ = 0;
};

Tokens TextOf(int vocab, int size, uint64_t seed) {
  Tokens text;
  for (int i = 0; i < size; ++i) {
    const double coin = Coin(seed, 0, static_cast<uint32_t>(i), Purpose::kPlainToken);
    text.push_back(static_cast<TokenId>(coin * vocab));
  }
  return text;
}

void ExpectLossless(LocalSource source) {
  for (int vocab = 2; vocab <= 4; ++vocab) {
    const size_t total = vocab == 2 ? 7 : vocab == 3 ? 6 : 5;
    for (uint64_t i = 0; i < 8; ++i) {
      const EnumeratedPair pair{vocab, RandomModel(vocab, 100 * i, i % 2 == 0 ? 0 : 0.4), nullptr};
      const OutputDistribution want = TargetDistribution(pair, total);
      ProposerDraft draft(source, TextOf(vocab, 6, i),
                          {TextOf(vocab, 20, i + 50), TextOf(vocab, 9, i + 70)});
      const std::vector<DraftShape> rounds = {Sequences(1, 3), Sequences(1, 1), Sequences(1, 2)};
      for (const Rule rule : kEach) {
        const OutputDistribution got =
            GenerationDistribution(EmitterOf(rule, std::ref(draft)), pair, rounds, total);
        EXPECT_LE(TotalVariation(got, want), kTolerance)
            << RuleName(rule) << ", vocab " << vocab << " pair " << i;
      }
      EXPECT_GT(draft.drafted(), 0u);
    }
  }
}

TEST(PointMassDistribution, HoldsForPromptLookup) { ExpectLossless(LocalSource::kLookup); }

TEST(PointMassDistribution, HoldsForSuffixAutomaton) { ExpectLossless(LocalSource::kSuffix); }

// The distance of the output from the target if a single first token is always drafted, but sent
// with the distribution `distribution`.
double ErrorWithDistribution(Rule rule, const DraftDistribution& distribution) {
  const EnumeratedPair pair{3, Chain(std::vector<OutputDistribution>(4, {.2, .5, .3})), nullptr};
  const MakeDraft draft = [&](std::span<const TokenId>, int) {
    return DraftTree::Chain(Tokens{1}, {distribution});
  };
  return RoundError(EmitterOf(rule, draft), pair, Sequences(1, 1));
}

// The frequencies that led to the choice of a token are not its draft distribution: it was chosen
// with certainty.
TEST(PointMassDistribution, BreaksIfRowsAreFrequencies) {
  for (const Rule rule : kEach) {
    EXPECT_LE(ErrorWithDistribution(rule, {{1}, {kDraftWeightTotal}}), kTolerance)
        << RuleName(rule);
    // It is accepted with min(1, p / q) = 5/6 instead of 1/2.
    const DraftDistribution frequencies = {{1, 0}, {39322, 26214}};
    EXPECT_GT(ErrorWithDistribution(rule, frequencies), 0.3) << RuleName(rule);
  }
}

// Two tokens for the same position, sent as if sampled from a distribution over both.
TEST(PointMassDistribution, BreaksIfDistinctTokensAreDraws) {
  const EnumeratedPair pair{3, Chain(std::vector<OutputDistribution>(4, {.2, .5, .3})), nullptr};
  const MakeDraft draft = [](std::span<const TokenId>, int) {
    DraftTree tree;
    tree.SetDistribution(DraftTree::kRoot,
                         {{0, 1}, {kDraftWeightTotal / 2, kDraftWeightTotal / 2}});
    tree.AddDraw(DraftTree::kRoot, 0);
    tree.AddDraw(DraftTree::kRoot, 1);
    return tree;
  };
  for (const Rule rule : {Rule::kSpecTr, Rule::kMultiRound, Rule::kMultiPathBlock}) {
    EXPECT_GT(RoundError(EmitterOf(rule, draft), pair, Sequences(2, 1)), 0.01) << RuleName(rule);
  }
}

// A request drafts from the text of another one with the same seed, hence the same random numbers:
// what these rejected for the first request they reject again, and only the token that was rejected
// first remains.
TEST(PointMassDistribution, BreaksIfDraftKnowsCoins) {
  const std::vector<float> row = {.5f, .5f};
  const TargetRowFn rows = [&](int) { return std::span<const float>(row); };
  const auto first_token = [&](TokenId drafted, uint64_t seed) {
    const DraftTree tree = ToDraft(Tokens{drafted}, DraftKind::kSampled);
    const Verdict verdict = VerifyRound(Rule::kToken, tree, rows, 2, seed, 1, 0);
    return verdict.accepted > 0 ? drafted : verdict.next;
  };
  int zeros = 0, same_seed = 0, other_seed = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const TokenId earlier = first_token(0, seed);
    zeros += earlier == 0;
    same_seed += first_token(earlier, seed) == 0;
    other_seed += first_token(earlier, seed + 4000) == 0;
  }
  // Five standard deviations of 4000 fair coins are 158.
  EXPECT_NEAR(zeros, 2000, 158);
  EXPECT_NEAR(other_seed, 2000, 158);
  EXPECT_EQ(same_seed, 4000);
}

}  // namespace
}  // namespace outrider::testing
