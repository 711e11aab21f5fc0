#include "common/grammar/draft_grammar.h"

#include <gmock/gmock.h>

#include <string_view>
#include <vector>

#include "common/grammar/grammar_cache.h"
#include "tests/common/grammar/grammar_testing.h"

namespace outrider::grammar {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Tokens: a b c ab ca, a special one, and the end token.
constexpr TokenId kA = 0, kB = 1, kC = 2, kAb = 3, kCa = 4, kSpecial = 5, kEnd = 6;
constexpr int kTokens = 7;

class DraftGrammarTest : public ::testing::Test {
 protected:
  DraftGrammar Follow(const std::string& regex, std::vector<MaskWord> allowed = {}) {
    return DraftGrammar(cache_.Get({.kind = Kind::kRegex, .text = regex}).value(),
                        std::move(allowed));
  }
  // The tokens that may follow `node`.
  std::vector<TokenId> After(DraftGrammar& text, const DraftTree& draft, int node) {
    std::vector<MaskWord> mask(text.mask_words());
    const Result<int> count = text.Fill(draft, node, scratch_, mask);
    EXPECT_TRUE(count.ok());
    std::vector<TokenId> tokens;
    for (TokenId token = 0; token < kTokens; ++token) {
      if (HasBit(mask, token)) tokens.push_back(token);
    }
    EXPECT_EQ(count.ok() ? *count : -1, static_cast<int>(tokens.size()));
    return tokens;
  }

  MaskScratch scratch_;
  GrammarCache cache_{TokenTable::Create(std::vector<std::string_view>{"a", "b", "c", "ab", "ca"},
                                         {{kEnd}}, kTokens)
                          .value(),
                      {}};
};

TEST_F(DraftGrammarTest, NodeStateFollowsItsPath) {
  DraftGrammar text = Follow("(ab)*c");
  DraftTree draft;
  const int a = draft.AddDraw(0, kA), ab = draft.AddDraw(0, kAb);
  const int a_b = draft.AddDraw(a, kB), ab_c = draft.AddDraw(ab, kC);
  EXPECT_THAT(After(text, draft, 0), ElementsAre(kA, kC, kAb));
  EXPECT_THAT(After(text, draft, ab_c), ElementsAre(kEnd));
  EXPECT_THAT(After(text, draft, a), ElementsAre(kB));
  EXPECT_THAT(After(text, draft, a_b), ElementsAre(kA, kC, kAb));
  // The draft grows.
  const int a_b_c = draft.AddDraw(a_b, kC);
  EXPECT_THAT(After(text, draft, a_b_c), ElementsAre(kEnd));
}

TEST_F(DraftGrammarTest, UnreachableNodesAllowAnything) {
  DraftGrammar text = Follow("ab");
  DraftTree draft;
  const int c = draft.AddDraw(0, kC), special = draft.AddDraw(0, kSpecial);
  const int end = draft.AddDraw(0, kEnd), below = draft.AddDraw(c, kA);
  for (const int node : {c, special, end, below}) {
    EXPECT_EQ(After(text, draft, node).size(), static_cast<size_t>(kTokens)) << node;
  }
}

TEST_F(DraftGrammarTest, NextDraftStartsAfterCommittedText) {
  DraftGrammar text = Follow("abc");
  DraftTree first;
  first.AddDraw(0, kAb);
  EXPECT_THAT(After(text, first, 1), ElementsAre(kC));
  EXPECT_FALSE(text.Advance(kB, scratch_));
  EXPECT_FALSE(text.Advance(kEnd, scratch_));  // the text is not complete
  EXPECT_FALSE(text.Advance(kSpecial, scratch_));
  EXPECT_TRUE(text.Advance(kA, scratch_));
  DraftTree second;
  const int b = second.AddDraw(0, kB);
  EXPECT_THAT(After(text, second, 0), ElementsAre(kB));
  EXPECT_THAT(After(text, second, b), ElementsAre(kC));
  EXPECT_TRUE(text.Advance(kB, scratch_));
  EXPECT_TRUE(text.Advance(kC, scratch_));
  EXPECT_TRUE(text.Advance(kEnd, scratch_));
  EXPECT_FALSE(text.Advance(kEnd, scratch_));
}

TEST_F(DraftGrammarTest, ForcesTokensWithoutAlternatives) {
  EXPECT_THAT(Follow("bc").Forced(9, scratch_), ElementsAre(kB, kC, kEnd));
  EXPECT_THAT(Follow("bc").Forced(2, scratch_), ElementsAre(kB, kC));
  // "b" may be the end, so nothing is forced after it.
  EXPECT_THAT(Follow("bc?").Forced(9, scratch_), ElementsAre(kB));
  // "ab" is two tokens or one: the model decides.
  EXPECT_THAT(Follow("ab").Forced(9, scratch_), IsEmpty());
  // Unless the request allows only one of the two.
  EXPECT_THAT(Follow("ab", {0b1000111}).Forced(9, scratch_), ElementsAre(kA, kB, kEnd));
}

TEST_F(DraftGrammarTest, ReadsLongestMatchingText) {
  const DraftGrammar text = Follow("(ab)*c");
  EXPECT_EQ(text.Reads({{kAb, kA, kB, kC}}, scratch_), 4u);
  EXPECT_EQ(text.Reads({{kAb, kB, kC}}, scratch_), 1u);
  EXPECT_EQ(text.Reads({{kCa}}, scratch_), 0u);
  EXPECT_EQ(text.Reads({}, scratch_), 0u);
}

// Whatever a drafter chooses, a round's masks stop soon after the limit; the next round has its own
// limit.
TEST_F(DraftGrammarTest, StepsOfADraftAreBounded) {
  constexpr int64_t kLimit = 100;
  GrammarCache cache(TokenTable::Create(std::vector<std::string_view>{"a", "b", "c", "ab", "ca"},
                                        {{kEnd}}, kTokens)
                         .value(),
                     {.masks = {.round_steps = kLimit}});
  DraftGrammar text(cache.Get({.kind = Kind::kRegex, .text = "((ab)*c)*"}).value(), {});
  DraftTree draft;
  for (int node = 0; node < 200;) node = draft.AddDraw(node, kC);
  std::vector<MaskWord> mask(text.mask_words());
  const auto fill = [&](int node) { return text.Fill(draft, node, scratch_, mask); };
  const int64_t begin = scratch_.stepper.steps();
  int filled = 0;
  for (int node = 0; node <= draft.size(); ++node) filled += fill(node).ok() ? 1 : 0;
  EXPECT_GT(filled, 2);
  EXPECT_LT(filled, 200);
  EXPECT_LT(scratch_.stepper.steps() - begin, 2 * kLimit);
  EXPECT_EQ(fill(200).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(fill(DraftTree::kRoot).ok());
  EXPECT_TRUE(text.Advance(kC, scratch_));
  EXPECT_TRUE(fill(1).ok());
}

TEST_F(DraftGrammarTest, RequestsOwnMaskCountsToo) {
  DraftGrammar text = Follow("[abc]*", {0b1000101});
  EXPECT_THAT(After(text, DraftTree(), 0), ElementsAre(kA, kC, kEnd));
}

// A drafter with another vocabulary has tokens that do not exist at the verifier.
TEST_F(DraftGrammarTest, UnreachableNodesKeepRequestsMask) {
  DraftGrammar text = Follow("ab", {1u << kAb | 1u << kB | 1u << kEnd});
  DraftTree draft;
  const int end = draft.AddDraw(draft.AddDraw(0, kAb), kEnd), wrong = draft.AddDraw(0, kC);
  EXPECT_THAT(After(text, draft, end), ElementsAre(kB, kAb, kEnd));
  EXPECT_THAT(After(text, draft, wrong), ElementsAre(kB, kAb, kEnd));
  ASSERT_TRUE(text.Advance(kAb, scratch_) && text.Advance(kEnd, scratch_));
  EXPECT_THAT(After(text, {}, 0), ElementsAre(kB, kAb, kEnd));
}

TEST_F(DraftGrammarTest, ReportsTooManyParses) {
  DraftGrammar text = Follow("a{0,60000}a{0,60000}b");
  bool told = false;
  for (int i = 0; i < 2000 && !told; ++i) {
    std::vector<MaskWord> mask(text.mask_words());
    const Result<int> count = text.Fill(DraftTree(), 0, scratch_, mask);
    told = !count.ok();
    if (told) {
      EXPECT_EQ(count.status().code(), Code::kResourceExhausted);
    } else {
      ASSERT_TRUE(text.Advance(kA, scratch_));
    }
  }
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace outrider::grammar
