#include "tests/common/ranks/rank_story.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace outrider {

TokenId LargestOf(const std::vector<float>& row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

Rows Story(Model& model) {
  const int vocabulary = model.config().vocab_size;
  const std::vector<TokenId> prompt = RandomTokens(21, vocabulary, 1);
  const SequenceId sequence = model.NewSequence();
  Rows rows = Extend(model, sequence, prompt);
  const std::vector<TokenId> draft = RandomTokens(5, vocabulary, 2);
  const std::vector<int32_t> parents = {-1, 0, 0, 2, -1};
  for (std::vector<float>& row : Extend(model, sequence, draft, parents)) {
    rows.push_back(std::move(row));
  }
  model.KeepPath(sequence, std::vector<int32_t>{0, 2, 3});
  const SequenceId fork = model.Fork(sequence, 19).value();
  for (int i = 0; i < 3; ++i) {
    const TokenId token = LargestOf(rows.back());
    const ForwardSequence batch[] = {
        {.sequence = sequence, .tokens = {&token, 1}, .parents = {}, .logit_rows = {}},
        {.sequence = fork, .tokens = draft, .parents = {}, .logit_rows = {}}};
    ForwardOutput output;
    EXPECT_TRUE(model.Forward(batch, /*want_hidden=*/false, &output).ok());
    rows.push_back(Extend(model, i % 2 == 0 ? fork : sequence, {{token}}).back());
  }
  model.Release(fork);
  model.Release(sequence);
  return rows;
}

void ExpectClose(const Rows& rows, const Rows& expected, double tolerance) {
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<double> row(expected[i].begin(), expected[i].end());
    EXPECT_LT(RelativeError(rows[i], row), tolerance) << "row " << i;
  }
}

}  // namespace outrider
