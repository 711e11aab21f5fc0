// Compares the entries that a model picks for drafting with the rows themselves: for the CPU, the
// kernels' emulation and a device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/math/coins.h"
#include "common/math/softmax.h"
#include "common/spec/draft_distribution.h"
#include "common/spec/sequence_sampling.h"
#include "tests/common/model/model_testing.h"

namespace outrider::testing {

// The entries come from the model's own rows, whether or not those are copied to the host as well.
inline void ExpectPicksOfTheRows(Model& model) {
  const int vocab = model.config().vocab_size, allowed = vocab - 3;
  const auto bytes = [&] {
    return model.device() == nullptr ? 0 : model.device()->bytes_to_host();
  };
  const std::vector<TokenId> tokens = RandomTokens(6, vocab, 3);
  const std::vector<int32_t> rows = {1, 5};
  const std::vector<bool> stays = {true, false, false, true, true, false};
  const auto width = static_cast<size_t>(vocab);
  const auto hidden_size = static_cast<size_t>(model.config().hidden_size);
  std::vector<float> logits, hidden;
  for (const bool draft : {false, true}) {
    std::vector<ForwardSequence> shares;
    for (size_t i = 0; i < stays.size(); ++i) {
      shares.push_back({.sequence = model.NewSequence(),
                        .tokens = std::span(tokens).first(6 - i % 2),
                        .logit_rows = std::span(rows).first(1 + (i + 1) % 2),
                        .logits_to_host = !draft || !stays[i]});
    }
    const int64_t before = bytes();
    ForwardOutput output;
    ASSERT_TRUE(model.Forward(shares, /*want_hidden=*/true, &output).ok());
    if (!draft) {
      logits.assign(output.logits, output.logits + output.rows * vocab);
      hidden.assign(output.hidden, output.hidden + 9 * hidden_size);
      ASSERT_EQ(output.rows, 9);
    } else {
      PickBatch batch;
      size_t stay = 0;
      for (size_t i = 0; i < stays.size(); ++i) {
        batch.BeginSequence({});
        for (size_t row = 0; row < shares[i].logit_rows.size(); ++row) {
          batch.AddRow({.pick = RowPick::kTop, .count = 3, .allowed = allowed}, {});
          if (stays[i]) ++stay;
        }
      }
      EXPECT_EQ(output.rows, static_cast<int>(9 - stay));
      const std::vector<float> host(output.logits, output.logits + (9 - stay) * width);
      const std::span<const PickedRow> picked = model.Draft(batch);
      ASSERT_EQ(picked.size(), 9u);
      const float *expected = logits.data(), *came = host.data();
      size_t next = 0;
      for (size_t i = 0; i < stays.size(); ++i) {
        for (size_t row = 0; row < shares[i].logit_rows.size(); ++row, expected += width) {
          if (!stays[i]) {
            EXPECT_TRUE(BitEqual({came, width}, {expected, width})) << i;
            came += width;
          }
          std::vector<float> left(expected, expected + allowed);
          for (const RowEntry& entry : picked[next++].entries) {
            EXPECT_EQ(entry.id, RowArgmax(left)) << i;
            left[static_cast<size_t>(entry.id)] = -1e30f;
          }
        }
      }
      EXPECT_TRUE(BitEqual({output.hidden, hidden.size()}, hidden));
      if (model.device() != nullptr) {
        EXPECT_EQ(bytes() - before, static_cast<int64_t>(9 * (16 + 3 * 8) + (9 - stay) * width * 4 +
                                                         9 * hidden_size * 4));
      }
    }
    for (const ForwardSequence& share : shares) model.Release(share.sequence);
  }
}

// Sequences that draft with one model, several depths at a time.
class ChainStory {
 public:
  explicit ChainStory(Model* model) : model_(*model), vocab_(model->config().vocab_size) {
    for (int i = 0; i < 3; ++i) {
      Session& session = sessions_.emplace_back();
      session.sequence = model->NewSequence();
      session.missing = RandomTokens(5 + 14 * i, vocab_, 7);
      session.spec = {.pick = static_cast<RowPick>(i),
                      .count = i == 0 ? 20 : 2,
                      .allowed = vocab_ - 2,
                      .seed = 90 + static_cast<uint64_t>(i)};
      session.params.temperature = i == 1 ? 0.f : 0.9f;
      session.params.top_p = i == 0 ? 0.95f : 1.f;
      session.params.presence_penalty = i == 1 ? 1.5f : 0.f;
      session.params.repetition_penalty = 1.3f;
    }
  }
  ~ChainStory() {
    for (const Session& session : sessions_) model_.Release(session.sequence);
  }

  // Everything that was picked and sampled, by depth and then by sequence; entries sorted by id.
  struct Drawn {
    std::vector<RowEntry> entries;
    TokenId token = -1;
  };
  // On the device without a wait between depths, or one pass after another with sampling on the
  // host.
  std::vector<Drawn> Draft(int depths, bool chains) {
    const std::vector<Drawn> drawn = chains ? DraftChains(depths) : DraftDepthByDepth(depths);
    ++round_;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      Session& session = sessions_[i];
      session.said.insert(session.said.end(), session.path.begin(), session.path.end());
      session.missing = {session.path.back()};
      session.path.clear();
    }
    return drawn;
  }
  // Drops the last tokens, as if they were rejected.
  void TakeBack(int tokens) {
    for (Session& session : sessions_) {
      model_.Truncate(session.sequence, model_.length(session.sequence) - tokens);
      session.said.resize(session.said.size() - static_cast<size_t>(tokens));
      session.missing = {session.said.back(), 3};
    }
  }
  // The logits after one more token for each sequence.
  Rows Look() {
    Rows rows;
    for (const Session& session : sessions_) {
      const std::vector<TokenId> tokens = {1};
      rows.push_back(Extend(model_, session.sequence, tokens)[0]);
      model_.Truncate(session.sequence, model_.length(session.sequence) - 1);
    }
    return rows;
  }
  std::vector<int> Lengths() const {
    std::vector<int> lengths;
    for (const Session& session : sessions_) lengths.push_back(model_.length(session.sequence));
    return lengths;
  }

 private:
  struct Session {
    SequenceId sequence = -1;
    std::vector<TokenId> missing, said, path;
    SamplingParams params;
    PickSpec spec;
  };

  Drawn Record(const PickedRow& row) const {
    Drawn drawn{.entries = {row.entries.begin(), row.entries.end()}, .token = row.sampled};
    std::sort(drawn.entries.begin(), drawn.entries.end(),
              [](const RowEntry& a, const RowEntry& b) { return a.id < b.id; });
    return drawn;
  }
  PickSpec Begin(const Session& session, PickBatch& batch) const {
    SequenceSampling sampling(session.params, vocab_, session.spec.allowed);
    for (const TokenId token : session.said) sampling.ObserveOutput(token);
    batch.BeginSequence(sampling.state());
    PickSpec spec = session.spec;
    spec.sampling = RowSamplingOf(session.params);
    spec.position = static_cast<uint32_t>(session.said.size() + session.path.size());
    return spec;
  }
  std::vector<Drawn> DraftChains(int depths) {
    PickBatch batch;
    std::vector<DraftChain> chains;
    for (const Session& session : sessions_) {
      const PickSpec spec = Begin(session, batch);
      batch.AddChain(spec, {}, {depths, round_, 0, kMass});
      chains.push_back({session.sequence, session.missing});
    }
    std::span<const PickedRow> picked;
    EXPECT_TRUE(model_.device()->DraftChains(chains, depths, batch, &picked).ok());
    EXPECT_EQ(picked.size(), sessions_.size() * static_cast<size_t>(depths));
    std::vector<Drawn> all;
    for (const PickedRow& row : picked) {
      sessions_[all.size() % sessions_.size()].path.push_back(row.sampled);
      all.push_back(Record(row));
    }
    return all;
  }
  std::vector<Drawn> DraftDepthByDepth(int depths) {
    std::vector<Drawn> all;
    for (int depth = 0; depth < depths; ++depth) {
      PickBatch batch;
      std::vector<ForwardSequence> shares;
      std::vector<int32_t> rows;
      rows.reserve(sessions_.size());  // spans point into it
      for (const Session& session : sessions_) {
        const PickSpec spec = Begin(session, batch);
        batch.AddRow(spec, session.path);
        const std::span<const TokenId> tokens =
            depth == 0 ? std::span(session.missing) : std::span(session.path).last(1);
        rows.push_back(static_cast<int32_t>(tokens.size()) - 1);
        shares.push_back({.sequence = session.sequence,
                          .tokens = tokens,
                          .parents = {},
                          .logit_rows = {&rows.back(), 1},
                          .logits_to_host = false});
      }
      ForwardOutput output;
      EXPECT_TRUE(model_.Forward(shares, /*want_hidden=*/false, &output).ok());
      const std::span<const PickedRow> picked = model_.Draft(batch);
      for (size_t i = 0; i < sessions_.size(); ++i) {
        Session& session = sessions_[i];
        Drawn& drawn = all.emplace_back(Record(picked[i]));
        drawn.token = picked[i].entries[0].id;
        if (session.spec.pick == RowPick::kDistribution) {
          const DraftDistribution distribution = MakeDraftDistribution(
              drawn.entries, {.mass = kMass, .max_entries = session.spec.count});
          drawn.token = SampleDraftDistribution(
              distribution,
              Coin(session.spec.seed, round_, static_cast<uint32_t>(depth), Purpose::kDraftToken));
        }
        session.path.push_back(drawn.token);
      }
    }
    return all;
  }

  static constexpr float kMass = 0.99f;

  Model& model_;
  const int vocab_;
  uint32_t round_ = 1;
  std::vector<Session> sessions_;
};

// Compares sequences that draft without a wait between depths with sequences that wait at each
// depth: the same entries, the same tokens, the same KV afterwards.
inline void ExpectChainsOfTheHostsDraws(Model& model, int rounds) {
  ASSERT_NE(model.device(), nullptr);
  ChainStory chains(&model), one_by_one(&model);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const int depths = round % 5 == 4 ? 1 : 4;
    const int64_t before = model.device()->bytes_to_host();
    const std::vector<ChainStory::Drawn> drawn = chains.Draft(depths, /*chains=*/true);
    EXPECT_EQ(model.device()->bytes_to_host() - before, depths * (3 * 16 + 8 * (20 + 2 + 2)));
    const std::vector<ChainStory::Drawn> expected = one_by_one.Draft(depths, /*chains=*/false);
    ASSERT_EQ(drawn.size(), expected.size());
    for (size_t i = 0; i < drawn.size(); ++i) {
      ASSERT_EQ(drawn[i].token, expected[i].token) << i;
      ASSERT_EQ(drawn[i].entries.size(), expected[i].entries.size()) << i;
      for (size_t entry = 0; entry < drawn[i].entries.size(); ++entry) {
        EXPECT_EQ(drawn[i].entries[entry].id, expected[i].entries[entry].id);
        EXPECT_EQ(drawn[i].entries[entry].value, expected[i].entries[entry].value);
      }
    }
    EXPECT_EQ(chains.Lengths(), one_by_one.Lengths());
    const Rows after = chains.Look(), expected_after = one_by_one.Look();
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_TRUE(BitEqual(after[i], expected_after[i])) << i;
    }
    if (round % 3 != 2) continue;
    chains.TakeBack(2);
    one_by_one.TakeBack(2);
  }
}

}  // namespace outrider::testing
