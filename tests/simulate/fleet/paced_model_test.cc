#include "simulate/fleet/paced_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace outrider {
namespace {

// The most likely token after each token of `text`.
std::vector<TokenId> Continuations(PacedModel& model, const std::vector<TokenId>& text) {
  std::vector<int32_t> rows(text.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
  const SequenceId sequence = model.NewSequence();
  const std::vector<ForwardSequence> batch = {
      {.sequence = sequence, .tokens = text, .logit_rows = rows}};
  ForwardOutput output;
  EXPECT_TRUE(model.Forward(batch, false, &output).ok());
  const int vocab = model.config().vocab_size;
  std::vector<TokenId> likely;
  for (int row = 0; row < output.rows; ++row) {
    const float* const begin = output.logits + static_cast<ptrdiff_t>(row) * vocab;
    likely.push_back(static_cast<TokenId>(std::max_element(begin, begin + vocab) - begin));
  }
  model.Release(sequence);
  return likely;
}

std::vector<TokenId> Text(TokenId first, int tokens) {
  std::vector<TokenId> text = {first};
  for (int i = 1; i < tokens; ++i) text.push_back((i * 7 + i / 3) % 32);
  return text;
}

TEST(PacedModel, PassTakesTimeByItsRows) {
  double spent = 0;
  PacedModel model({.cost = {.first_row = 0.02, .further_row = 0.001}},
                   [&](double seconds) { spent += seconds; });
  Continuations(model, Text(0, 11));
  EXPECT_DOUBLE_EQ(spent, 0.03);
}

// False alarm below 1e-6: five deviations of a binomial of 400 trials.
TEST(PacedModel, DraftModelAgreesByItsClass) {
  PacedModel target({}, [](double) {});
  PacedModel draft({.acceptance = {0.9, 0.3}}, [](double) {});
  for (const TokenId request_class : {0, 1}) {
    const std::vector<TokenId> text = Text(request_class, 400);
    const std::vector<TokenId> wanted = Continuations(target, text);
    const std::vector<TokenId> drafted = Continuations(draft, text);
    int equal = 0;
    for (size_t i = 0; i < wanted.size(); ++i) equal += wanted[i] == drafted[i] ? 1 : 0;
    const double share = request_class == 0 ? 0.9 : 0.3;
    EXPECT_NEAR(equal, 400 * share, 5 * std::sqrt(400 * share * (1 - share)));
  }
}

TEST(PacedModel, ContinuationFollowsFromTheWholeText) {
  PacedModel model({}, [](double) {});
  std::vector<TokenId> text = Text(0, 40);
  const std::vector<TokenId> before = Continuations(model, text);
  text[5] = (text[5] + 1) % 32;
  const std::vector<TokenId> after = Continuations(model, text);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 5, after.begin()));
  EXPECT_FALSE(std::equal(before.begin() + 5, before.end(), after.begin() + 5));
}

TEST(PacedModel, CountsPagesOfForksOnce) {
  PacedModel model({.page_tokens = 4, .total_pages = 10}, [](double) {});
  const SequenceId first = model.NewSequence();
  const std::vector<TokenId> text = Text(0, 10);
  ForwardOutput output;
  const std::vector<ForwardSequence> batch = {{.sequence = first, .tokens = text}};
  ASSERT_TRUE(model.Forward(batch, false, &output).ok());
  EXPECT_EQ(model.free_pages(), 7);
  const Result<SequenceId> fork = model.Fork(first, 6);
  ASSERT_TRUE(fork.ok());
  EXPECT_EQ(model.free_pages(), 6);  // its partial page is a copy
  ASSERT_EQ(model.Pages(first).size(), 3u);
  ASSERT_EQ(model.Pages(*fork).size(), 2u);
  EXPECT_EQ(model.Pages(*fork)[0], model.Pages(first)[0]);
  EXPECT_NE(model.Pages(*fork)[1], model.Pages(first)[1]);
  model.Release(first);
  EXPECT_EQ(model.free_pages(), 8);
  model.Release(*fork);
  EXPECT_EQ(model.free_pages(), 10);
  const SequenceId large = model.NewSequence();
  EXPECT_EQ(model.Reserve(large, 41).code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace outrider
