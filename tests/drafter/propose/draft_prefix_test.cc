// KV that the drafter caches for sessions with a common beginning: only the rest is computed,
// drafts are the same as without it, and every page is freed.
#include <gtest/gtest.h>

#include <vector>

#include "tests/drafter/propose/loop_fixture.h"

namespace outrider {
namespace {

class DraftPrefix : public LoopTest {
 protected:
  static constexpr int kPageTokens = 4;

  void StartKeeping(int pages = 256, DraftLoopOptions options = {}) {
    options.prefix_cache = true;
    Start({.page_tokens = kPageTokens, .total_pages = pages}, options);
  }

  static std::vector<TokenId> Prompt(int tokens, TokenId first = 1) {
    std::vector<TokenId> prompt;
    for (int i = 0; i < tokens; ++i) prompt.push_back((first + 3 * i) % kVocab);
    return prompt;
  }

  // Tokens computed since pass `batches`, including drafts.
  int ComputedSince(size_t batches) const {
    int tokens = 0;
    for (size_t i = batches; i < model_->batches().size(); ++i) {
      for (const FakeModel::Share& share : model_->batches()[i]) {
        tokens += static_cast<int>(share.tokens.size());
      }
    }
    return tokens;
  }

  // Opens a session with one draft token, whose draft must be that of an empty model. Returns the
  // number of tokens computed for it.
  int OpenAndCount(uint64_t id, const std::vector<TokenId>& tokens) {
    const size_t before = model_->batches().size();
    SessionOpening open = Opening(id, 1, tokens);
    Push(open);
    const DraftTree draft = TheDraft();
    EXPECT_EQ(draft.size(), 1);
    const DraftTree expected = Oracle(open);
    EXPECT_EQ(draft.token(1), expected.token(1));
    EXPECT_EQ(draft.distribution(0).ids, expected.distribution(0).ids);
    EXPECT_EQ(draft.distribution(0).weights, expected.distribution(0).weights);
    return ComputedSince(before);
  }

  void ExpectPagesBackAtTheEnd() {
    loop_.reset();
    EXPECT_EQ(model_->sequences(), 0);
    EXPECT_EQ(model_->free_pages(), model_->total_pages());
  }
};

TEST_F(DraftPrefix, SecondSessionComputesRest) {
  StartKeeping();
  const std::vector<TokenId> prompt = Prompt(22);
  EXPECT_EQ(OpenAndCount(1, prompt), 22);
  Push(CloseEvent{1});
  EXPECT_EQ(OpenAndCount(2, prompt), 2) << "five whole pages were there";
  std::vector<TokenId> other = prompt;
  other[9] = 0;
  EXPECT_EQ(OpenAndCount(3, other), 14) << "two of them";
  ExpectPagesBackAtTheEnd();
}

TEST_F(DraftPrefix, RunningSessionsShareTheirPrompts) {
  StartKeeping();
  const std::vector<TokenId> prompt = Prompt(21);
  EXPECT_EQ(OpenAndCount(1, prompt), 21);
  EXPECT_EQ(OpenAndCount(2, prompt), 1);
  EXPECT_EQ(OpenAndCount(3, Prompt(20)), 4) << "the last token is always computed";
  ExpectPagesBackAtTheEnd();
}

TEST_F(DraftPrefix, NextTurnReusesItsPrefix) {
  StartKeeping();
  std::vector<TokenId> text = Prompt(10);
  SessionOpening open = Opening(1, 4, text);
  Push(open);
  const DraftTree draft = TheDraft();
  ASSERT_EQ(draft.size(), 4);
  Push(SessionVerdict{
      .session = 1, .round = 1, .node = 3, .next = {7}, .plan = {.round = 2, .shape = {}}});
  StepToRest();
  Push(CloseEvent{1});
  for (const TokenId token : draft.Path(3)) text.push_back(token);
  text.insert(text.end(), {7, 8, 9});
  // 13 tokens were run, which are three whole pages.
  EXPECT_EQ(OpenAndCount(2, text), 16 - 12);
  ExpectPagesBackAtTheEnd();
}

TEST_F(DraftPrefix, ReopenedSessionReusesItsText) {
  StartKeeping();
  EXPECT_EQ(OpenAndCount(1, Prompt(17)), 17);
  EXPECT_EQ(OpenAndCount(1, Prompt(17)), 1);
  ExpectPagesBackAtTheEnd();
}

TEST_F(DraftPrefix, ClosingSessionDropsDraftsAhead) {
  StartKeeping(256, {.ahead_tokens = 32});
  EXPECT_GT(OpenAndCount(1, Prompt(9)), 9) << "it drafted ahead";
  Push(CloseEvent{1});
  StepToRest();
  ExpectPagesBackAtTheEnd();
}

// Texts use up all pages in turn, and no plan is rejected because of cached prefixes.
TEST_F(DraftPrefix, PrefixesGiveWayToPlans) {
  StartKeeping(/*pages=*/12);
  for (uint64_t session = 1; session <= 40; ++session) {
    const auto length = static_cast<int>(20 + session % 9);
    Push(Opening(session, Sequences(2, 4), Prompt(length, static_cast<TokenId>(session % 7))));
    EXPECT_EQ(TheDraft().total_draws(), 8) << session;
    Push(CloseEvent{session});
  }
  EXPECT_LT(model_->free_pages(), 12) << "something is kept";
  Push(DisconnectedEvent{});
  StepToRest();
  ExpectPagesBackAtTheEnd();
}

TEST_F(DraftPrefix, RefusedPlanEvictsNoPrefix) {
  StartKeeping(/*pages=*/12);
  EXPECT_EQ(OpenAndCount(1, Prompt(22)), 22);
  Push(CloseEvent{1});
  Push(Opening(2, Sequences(4, 8), Prompt(40, 5)));
  EXPECT_TRUE(TheDraft().empty());
  EXPECT_EQ(OpenAndCount(3, Prompt(22)), 2) << "five whole pages were there";
}

TEST_F(DraftPrefix, NothingIsKeptUnlessAskedFor) {
  Start();
  EXPECT_EQ(OpenAndCount(1, Prompt(22)), 22);
  Push(CloseEvent{1});
  StepToRest();
  ExpectEverythingBack();
  EXPECT_EQ(OpenAndCount(2, Prompt(22)), 22);
}

}  // namespace
}  // namespace outrider
