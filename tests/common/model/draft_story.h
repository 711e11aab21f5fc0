// A model whose device reads rows for those who draft, against the rows themselves: for the
// kernels' emulation and for a device alike.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "common/math/softmax.h"
#include "tests/common/model/model_testing.h"

namespace outrider::testing {

// Sequences whose rows stay between such whose rows come, with hidden states of all of them: what
// is read is of the very rows that come without it.
inline void ExpectReadsOfTheHostsRows(Model& model) {
  const int vocab = model.config().vocab_size, allowed = vocab - 3;
  ASSERT_TRUE(model.drafts());
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
                        .draft = draft && stays[i]});
    }
    const int64_t before = model.bytes_to_host();
    ForwardOutput output;
    ASSERT_TRUE(model.Forward(shares, /*want_hidden=*/true, &output).ok());
    if (!draft) {
      logits.assign(output.logits, output.logits + output.rows * vocab);
      hidden.assign(output.hidden, output.hidden + 9 * hidden_size);
      ASSERT_EQ(output.rows, 9);
    } else {
      DraftBatch batch;
      size_t count = 0;
      for (size_t i = 0; i < stays.size(); ++i) {
        const size_t n = shares[i].logit_rows.size();
        if (!stays[i]) batch.SkipRows(static_cast<int>(n));
        if (stays[i]) batch.BeginSession({}, {});
        for (size_t row = 0; stays[i] && row < n; ++row, ++count) {
          batch.AddRow({.pick = RowPick::kTop, .count = 3, .allowed = allowed}, {});
        }
      }
      const std::span<const PickedRow> picked = model.Draft(batch);
      ASSERT_EQ(picked.size(), count);
      EXPECT_EQ(output.rows, static_cast<int>(9 - count));
      const float *expected = logits.data(), *host = output.logits;
      size_t next = 0;
      for (size_t i = 0; i < stays.size(); ++i) {
        for (size_t row = 0; row < shares[i].logit_rows.size(); ++row, expected += width) {
          if (!stays[i]) {
            EXPECT_TRUE(BitEqual({host, width}, {expected, width})) << i;
            host += width;
            continue;
          }
          std::vector<float> left(expected, expected + allowed);
          for (const RowEntry& entry : picked[next++].entries) {
            EXPECT_EQ(entry.id, RowArgmax(left)) << i;
            left[static_cast<size_t>(entry.id)] = -1e30f;
          }
        }
      }
      EXPECT_TRUE(BitEqual({output.hidden, hidden.size()}, hidden));
      EXPECT_EQ(model.bytes_to_host() - before,
                static_cast<int64_t>(count * (8 + 3 * 8) + (9 - count) * width * 4 +
                                     9 * hidden_size * 4));
    }
    for (const ForwardSequence& share : shares) model.Release(share.sequence);
  }
}

}  // namespace outrider::testing
