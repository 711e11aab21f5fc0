// The drafts that sessions must get, computed from the definition: a new sampling state and the
// whole path for every row and token, without KV, batches and a frontier.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/math/coins.h"
#include "common/spec/draft_distribution.h"
#include "common/spec/draft_tree.h"
#include "common/spec/race.h"
#include "common/spec/sequence_sampling.h"
#include "drafter/propose/verifier_link.h"
#include "tests/drafter/propose/loop_device.h"
#include "tests/support/fake_model.h"
#include "tests/support/sequence_rows.h"
#include "tests/support/stops.h"

namespace outrider {

// Computes the draft of `plan` after `session.tokens`.
class DraftOracle {
 public:
  // `head`: nullptr if there is none.
  DraftOracle(const FakeModel& model, const SessionOpening& session, DraftPlan plan, int allowed,
              const DraftDistributionLimits& limits, const AcceptanceHead* head = nullptr)
      : model_(model),
        session_(session),
        plan_(std::move(plan)),
        allowed_(allowed),
        limits_(limits),
        head_(head) {}

  DraftTree Draft() const {
    DraftTree tree;
    struct Sequence {
      uint32_t index;
      int node;
    };
    std::vector<Sequence> sequences = {{0, DraftTree::kRoot}};
    for (int depth = 0; depth < plan_.shape.length; ++depth) {
      std::vector<Sequence> next;
      const auto draws = static_cast<uint32_t>(plan_.shape.draws(depth));
      for (const Sequence& sequence : sequences) {
        const std::vector<TokenId> path = tree.Path(sequence.node);
        if (!path.empty() && StoppedInFront(path)) continue;
        for (uint32_t i = 0; i < draws; ++i) {
          const uint32_t index = sequence.index * draws + i;
          const TokenId token = Token(path, index, i);
          if (token < 0) continue;
          if (session_.kind == DraftKind::kSampled)
            tree.SetDistribution(sequence.node, OutputDistribution(path));
          next.push_back({index, tree.AddDraw(sequence.node, token)});
        }
      }
      sequences = std::move(next);
    }
    return tree;
  }

 private:
  // Whether the row from which the path's last token was sampled made it the last one.
  bool StoppedInFront(std::span<const TokenId> path) const {
    const std::span<const TokenId> front = path.first(path.size() - 1);
    const StopRule& stop = plan_.stop;
    if (stop.kind == StopRule::Kind::kHead) {
      double product = 1;
      for (size_t i = 1; i <= front.size() && head_ != nullptr; ++i) {
        // A FakeModel's hidden state is its first logits.
        const std::vector<float> row = Logits(front.first(i));
        const std::span<const float> hidden(row.data(), static_cast<size_t>(head_->width));
        product /= 1 + std::exp(-static_cast<double>(head_->Logits(hidden)[0]));
      }
      return 1 - product > static_cast<double>(stop.threshold);
    }
    if (session_.kind == DraftKind::kSampled) return Stops(stop, OutputDistribution(front));
    std::vector<float> probs;
    if (session_.kind == DraftKind::kRace) {
      probs = Distribution(front);
    } else {
      probs = Logits(front);
      double sum = 0;
      for (const float logit : probs) sum += std::exp(static_cast<double>(logit));
      for (float& p : probs) p = static_cast<float>(std::exp(static_cast<double>(p)) / sum);
    }
    return testing::StopsAtRow(stop, probs);
  }

  SequenceSampling MakeSampling(std::span<const TokenId> path) const {
    SequenceSampling sampling(session_.sampling, model_.config().vocab_size, allowed_);
    const std::span<const TokenId> tokens = session_.tokens;
    const auto prompt = static_cast<size_t>(session_.prompt_tokens);
    sampling.ObservePrompt(tokens.first(prompt));
    for (const TokenId token : tokens.subspan(prompt)) sampling.ObserveOutput(token);
    for (const TokenId token : path) sampling.ObserveOutput(token);
    return sampling;
  }

  std::vector<float> Logits(std::span<const TokenId> path) const {
    std::vector<TokenId> tokens = session_.tokens;
    tokens.insert(tokens.end(), path.begin(), path.end());
    return model_.Logits(tokens);
  }

  std::vector<float> Distribution(std::span<const TokenId> path) const {
    std::vector<float> row = Logits(path);
    MakeDistribution(MakeSampling(path), row, {});
    return row;
  }

  DraftDistribution OutputDistribution(std::span<const TokenId> path) const {
    return MakeDraftDistribution(Distribution(path), limits_);
  }

  // Token `index` of its depth, the `nth` after its prefix; -1: none.
  TokenId Token(std::span<const TokenId> path, uint32_t index, uint32_t nth) const {
    const auto depth = static_cast<uint32_t>(path.size());
    if (session_.kind == DraftKind::kSampled) {
      return SampleDraftDistribution(
          OutputDistribution(path),
          Coin(session_.seed, plan_.round, depth, Purpose::kDraftToken, index));
    }
    if (session_.kind == DraftKind::kRace) {
      const auto position = static_cast<uint32_t>(session_.tokens.size()) + depth;
      const std::vector<TokenId> winners =
          RaceWinners(Distribution(path), static_cast<int>(nth) + 1, session_.seed, position);
      return nth < winners.size() ? winners[nth] : -1;
    }
    // The nth most likely token: all more likely ones are excluded by biases.
    SessionOpening biased = session_;
    for (uint32_t i = 0;; ++i) {
      SequenceSampling sampling =
          DraftOracle(model_, biased, plan_, allowed_, limits_).MakeSampling(path);
      std::vector<float> row = Logits(path);
      const TokenId best = MostLikely(sampling, row, {});
      if (i == nth) return best;
      biased.sampling.logit_bias.emplace_back(best, -100.f);
    }
  }

  const FakeModel& model_;
  const SessionOpening& session_;
  const DraftPlan plan_;
  const int allowed_;
  const DraftDistributionLimits limits_;
  const AcceptanceHead* const head_;
};

inline DraftTree OracleDraft(const FakeModel& model, const SessionOpening& session,
                             const DraftPlan& plan, int allowed,
                             const DraftDistributionLimits& limits,
                             const AcceptanceHead* head = nullptr) {
  return DraftOracle(model, session, plan, allowed, limits, head).Draft();
}

inline std::vector<TokenId> Tokens(const DraftTree& draft) {
  std::vector<TokenId> tokens;
  for (int node = 1; node <= draft.size(); ++node) tokens.push_back(draft.token(node));
  return tokens;
}

inline std::vector<int32_t> DrawsOf(const DraftTree& draft, int node) {
  return {draft.draws(node).begin(), draft.draws(node).end()};
}

// In order, or within the tolerance of this program's device.
inline void ExpectSameDistribution(const DraftDistribution& actual,
                                   const DraftDistribution& expected) {
  if (testing::WeightTolerance() == 0) {
    EXPECT_EQ(actual.ids, expected.ids);
    EXPECT_EQ(actual.weights, expected.weights);
    return;
  }
  std::map<TokenId, std::pair<int64_t, int64_t>> weights;
  for (size_t i = 0; i < actual.ids.size(); ++i) weights[actual.ids[i]].first = actual.weights[i];
  for (size_t i = 0; i < expected.ids.size(); ++i) {
    weights[expected.ids[i]].second = expected.weights[i];
  }
  // The last entry within the limits may be kept by only one of the two, when the mass before it is
  // almost sufficient: it has at most the mass that the limits leave out, and its weight goes to
  // the others.
  const auto left_out = static_cast<int64_t>(
      std::ceil((1 - static_cast<double>(DraftDistributionLimits{}.mass)) * kDraftWeightTotal));
  int64_t edge = 0;
  for (const auto& [token, pair] : weights) {
    const int64_t larger = std::max(pair.first, pair.second);
    if (std::min(pair.first, pair.second) == 0 && larger <= left_out) edge = larger;
  }
  for (const auto& [token, pair] : weights) {
    const int64_t difference = std::abs(pair.first - pair.second);
    if (difference == edge && std::min(pair.first, pair.second) == 0) continue;
    const int64_t share = (edge * pair.second + kDraftWeightTotal - 1) / kDraftWeightTotal;
    EXPECT_LE(difference, testing::WeightTolerance() + share) << "token " << token;
  }
}

// Nodes, their children in order, and distributions.
inline void ExpectSameDraft(const DraftTree& actual, const DraftTree& expected) {
  ASSERT_EQ(Tokens(actual), Tokens(expected));
  for (int node = 0; node <= expected.size(); ++node) {
    ASSERT_EQ(actual.parent(node), expected.parent(node)) << "node " << node;
    ASSERT_EQ(DrawsOf(actual, node), DrawsOf(expected, node)) << "node " << node;
    SCOPED_TRACE("node " + std::to_string(node));
    ExpectSameDistribution(actual.distribution(node), expected.distribution(node));
  }
}

}  // namespace outrider
