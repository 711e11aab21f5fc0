// Compares a model that verifies rounds on a device with verification of the same rows on the host:
// for the kernels' emulation and for a device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

#include "common/math/softmax.h"
#include "common/model/model.h"
#include "common/spec/sequence_sampling.h"
#include "tests/support/host_rules.h"
#include "tests/support/sequence_rows.h"
#include "tests/support/verify_rounds.h"

namespace outrider::testing {

// One sequence's part of a pass.
struct VerifyShare {
  SequenceId sequence = -1;
  bool has_round = false, to_host = false;
  std::vector<TokenId> tokens;
  std::vector<int32_t> parents, wanted;
  TestRound round;  // if it has one
};

// `all`: every row is copied to the host.
inline std::vector<ForwardSequence> BatchOf(const std::vector<VerifyShare>& shares, bool all) {
  std::vector<ForwardSequence> batch;
  for (const VerifyShare& s : shares) {
    batch.push_back({.sequence = s.sequence,
                     .tokens = s.tokens,
                     .parents = s.parents,
                     .logit_rows = s.wanted,
                     .logits_to_host = all || s.to_host});
  }
  return batch;
}

inline TestRound RandomRound(Random& random, int number, int allowed) {
  constexpr Rule kRules[] = {Rule::kToken,      Rule::kBlock,          Rule::kSpecTr,
                             Rule::kMultiRound, Rule::kMultiPathBlock, Rule::kGumbel};
  TestRound round{.rule = kRules[number % 6], .seed = random.Bits(), .round = 3};
  if (number % 7 == 0) round.params.temperature = 0;
  if (number % 3 == 0) round.params.top_k = 1 + random.Below(20);
  if (number % 4 == 0) round.params.top_p = 0.8f;
  if (number % 5 == 0) round.params.repetition_penalty = 1.3f;
  DraftShape shape{.length = number % 4};  // 0: a plain decoding step
  if (TakesManyPaths(round.rule) && shape.length > 0) shape.branching = {3};
  round.tree = random.Tree(shape, allowed, 30);
  return round;
}

// Passes over sequences that request a verdict, a verdict and their rows, or neither: rows are
// copied to the host only for the second kind, and verdicts equal the host's on the rows of the
// same pass.
inline void ExpectVerdictsOfTheHost(Model& model) {
  constexpr int kSteps = 14, kPrefix = 9;
  const int vocab = model.config().vocab_size, allowed = vocab - 5;
  const auto width = static_cast<size_t>(vocab);
  Random random(31);
  int differ = 0, accepted = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<VerifyShare> shares;
    for (const char kind : {'h', 'v', 'p', 'v', 'v', 'h'}) {
      VerifyShare& s = shares.emplace_back();
      s.sequence = model.NewSequence();
      s.has_round = kind != 'p';
      s.to_host = kind == 'h';
      for (int i = 0; i < kPrefix; ++i) s.tokens.push_back(random.Below(allowed));
      const ForwardSequence prefix = {.sequence = s.sequence, .tokens = s.tokens};
      ForwardOutput output;
      ASSERT_TRUE(model.Forward({&prefix, 1}, false, &output).ok());
      s.round.prompt = s.tokens;
      s.tokens.assign(2, random.Below(allowed));
      if (!s.has_round) continue;
      TestRound round = RandomRound(random, 3 * step + static_cast<int>(shares.size()), allowed);
      round.prompt = std::move(s.round.prompt);
      s.round = std::move(round);
      s.tokens.resize(1);
      s.round.prompt.push_back(s.tokens[0]);
      s.parents = {-1};
      for (int node = 1; node <= s.round.tree.size(); ++node) {
        s.tokens.push_back(s.round.tree.token(node));
        s.parents.push_back(s.round.tree.parent(node));
      }
      s.wanted.resize(s.tokens.size());
      std::iota(s.wanted.begin(), s.wanted.end(), 0);
    }

    ForwardOutput output;
    ASSERT_TRUE(model.Forward(BatchOf(shares, true), false, &output).ok());
    std::vector<float> wanted;  // of sequences that request their rows
    const float* row = output.logits;
    for (VerifyShare& s : shares) {
      for (size_t i = 0; i < s.wanted.size(); ++i, row += width) {
        s.round.rows.emplace_back(row, row + width);
        if (s.to_host) wanted.insert(wanted.end(), row, row + width);
      }
      model.Truncate(s.sequence, kPrefix);
    }

    RoundBatch batch;
    size_t bytes = wanted.size() * sizeof(float);
    for (const VerifyShare& s : shares) {
      if (!s.has_round) continue;
      AddTo(batch, s.round);
      bytes += sizeof(DecidedRound) + s.round.rows.size();
    }
    const int64_t before = model.device()->bytes_to_host();
    ASSERT_TRUE(model.Forward(BatchOf(shares, false), false, &output).ok());
    const Decisions decisions = model.Decide(batch, allowed);
    EXPECT_EQ(model.device()->bytes_to_host() - before, static_cast<int64_t>(bytes));
    ASSERT_EQ(output.rows * vocab, static_cast<int>(wanted.size()));
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), output.logits)) << "step " << step;

    size_t next = 0;
    for (VerifyShare& s : shares) {
      model.Release(s.sequence);
      if (!s.has_round) continue;
      SequenceSampling sampling(s.round.params, vocab, allowed);
      sampling.ObservePrompt(s.round.prompt);
      Rows rows = s.round.rows;
      for (int node = 0; node <= s.round.tree.size(); ++node) {
        std::vector<float>& r = rows[static_cast<size_t>(node)];
        MakeDistribution(sampling, r, s.round.tree.Path(node));
      }
      const Verdict verdict =
          s.round.params.greedy()
              ? VerifyMatch(s.round.tree,
                            [&](int node) { return RowArgmax(rows[static_cast<size_t>(node)]); })
              : OnHost(s.round, rows, vocab);
      accepted += verdict.accepted;
      differ += !Same(verdict, decisions.rounds[next++]);
    }
  }
  // A random number within 1e-6 of its threshold: one in ten thousand verdicts.
  EXPECT_EQ(differ, 0);
  EXPECT_GT(accepted, 0);
}

}  // namespace outrider::testing
