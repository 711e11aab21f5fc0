#include "drafter/propose/vocabulary_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/spec/race.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Tokens = std::vector<std::pair<TokenKind, std::string>>;

VocabularyEntries Entries(const Tokens& tokens) {
  VocabularyEntries entries;
  for (const auto& [kind, bytes] : tokens) EXPECT_TRUE(entries.Add(kind, bytes).ok());
  return entries;
}

constexpr TokenKind kText = TokenKind::kText, kSpecial = TokenKind::kSpecial;

// The verifier: a b c abd x <end> <role>, the drafter: <bos> d c b a ab <end>.
VocabularyMap Map(std::vector<TokenId> prefix = {0}) {
  const VocabularyEntries verifier = Entries({{kText, "a"},
                                              {kText, "b"},
                                              {kText, "c"},
                                              {kText, "abd"},
                                              {kText, "x"},
                                              {kSpecial, "<end>"},
                                              {kSpecial, "<role>"},
                                              {TokenKind::kAlias, "a"}});
  const VocabularyEntries own = Entries({{kSpecial, "<bos>"},
                                         {kText, "d"},
                                         {kText, "c"},
                                         {kText, "b"},
                                         {kText, "a"},
                                         {kText, "ab"},
                                         {kSpecial, "<end>"}});
  return VocabularyMap::Create(verifier, {.entries = own, .prompt_prefix = std::move(prefix)})
      .value();
}

TEST(VocabularyMap, CountsSharedTokens) {
  EXPECT_EQ(Map().match(), (VocabularyMatch{.shared = 4, .tokens = 7}));
  EXPECT_EQ(Map().verifier_size(), 8);
}

TEST(VocabularyMap, TranslatesTokensOfTheSameBytes) {
  const VocabularyMap map = Map();
  EXPECT_EQ(map.ToVerifier(4), 0);
  EXPECT_EQ(map.ToVerifier(6), 5) << "special tokens by their names";
  EXPECT_EQ(map.ToVerifier(0), -1);
  EXPECT_EQ(map.ToVerifier(1), -1);
  EXPECT_EQ(map.ToVerifier(-1), -1);
  EXPECT_EQ(map.ToVerifier(100), -1);
  EXPECT_THAT(map.ToOwn(2), ElementsAre(2));
  EXPECT_THAT(map.SharedMask(40), ElementsAre(0b1011100u, 0u));
}

TEST(VocabularyMap, SpellsWhatTheDrafterLacks) {
  const VocabularyMap map = Map();
  EXPECT_THAT(map.ToOwn(3), ElementsAre(5, 1)) << "the longest token first";
  EXPECT_THAT(map.ToOwn(7), ElementsAre(4));
  EXPECT_THAT(map.ToOwn(4), IsEmpty()) << "no token of ours begins with x";
  EXPECT_THAT(map.ToOwn(6), IsEmpty()) << "a special token that we lack is left out";
  EXPECT_THAT(map.ToOwn(8), IsEmpty());
  EXPECT_THAT(map.ToOwn(-1), IsEmpty());
}

// The verifier: a <|end|> <|eot|> <eos> "of text", the drafter: a </s> <eos> <|role|> "end".
VocabularyMap MapOfEnds(const std::vector<TokenId>& verifiers_ends,
                        const std::vector<TokenId>& own_ends) {
  VocabularyEntries verifier = Entries({{kText, "a"},
                                        {kSpecial, "<|end|>"},
                                        {kSpecial, "<|eot|>"},
                                        {kSpecial, "<eos>"},
                                        {kText, "of text"}});
  DrafterVocabulary own{.entries = Entries({{kText, "a"},
                                            {kSpecial, "</s>"},
                                            {kSpecial, "<eos>"},
                                            {kSpecial, "<|role|>"},
                                            {kText, "end"}})};
  for (const TokenId id : verifiers_ends) EXPECT_TRUE(verifier.AddEndToken(id).ok());
  for (const TokenId id : own_ends) EXPECT_TRUE(own.entries.AddEndToken(id).ok());
  return VocabularyMap::Create(verifier, own).value();
}

TEST(VocabularyMap, PairsSingleUnmatchedEndTokens) {
  // Of several ends, one remains on each side after removing those with the same name.
  for (const auto& [verifiers, own] :
       {std::pair<std::vector<TokenId>, std::vector<TokenId>>({1}, {1}),
        {{3, 1}, {1}},
        {{1}, {2, 1}},
        {{1, 3}, {2, 1}},
        {{1, 4}, {4, 1}}}) {
    const VocabularyMap map = MapOfEnds(verifiers, own);
    EXPECT_EQ(map.ToVerifier(1), 1);
    EXPECT_THAT(map.ToOwn(1), ElementsAre(1));
    EXPECT_EQ(map.match().shared, 3);
    EXPECT_THAT(map.SharedMask(5), ElementsAre(0b00111u));
    EXPECT_EQ(map.ToVerifier(2), 3) << "the namesake stays";
    EXPECT_THAT(map.ToOwn(2), IsEmpty());
  }
}

TEST(VocabularyMap, PairsNoAmbiguousEndTokens) {
  for (const auto& [verifiers, own] :
       {std::pair<std::vector<TokenId>, std::vector<TokenId>>({}, {}),
        {{1}, {}},
        {{}, {1}},
        {{1, 2}, {1}},
        {{1}, {1, 3}},
        {{3}, {1}},
        {{1}, {2}},
        {{4}, {1}},
        {{1}, {4}}}) {
    const VocabularyMap map = MapOfEnds(verifiers, own);
    EXPECT_EQ(map.match().shared, 2);
    EXPECT_EQ(map.ToVerifier(1), -1);
    EXPECT_THAT(map.ToOwn(1), IsEmpty());
    EXPECT_THAT(map.ToOwn(2), IsEmpty());
  }
}

TEST(VocabularyMap, RefusesVocabularyWithDuplicateTokens) {
  const auto map = VocabularyMap::Create(Entries({{kText, "a"}, {kText, "b"}, {kText, "a"}}),
                                         {.entries = Entries({{kText, "a"}})});
  EXPECT_EQ(map.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(map.status().message(), HasSubstr("ids 0 and 2"));
}

SessionOpening Open(std::vector<TokenId> tokens, int prompt) {
  SessionOpening open;
  open.tokens = std::move(tokens);
  open.prompt_tokens = prompt;
  return open;
}

TEST(VocabularyMap, TranslatesSessions) {
  SessionOpening open = Open({6, 0, 3, 2}, 2);
  open.sampling.logit_bias = {{1, 2.f}, {3, 1.f}};
  open.sampling.allowed_tokens = {0, 3, 2};
  open.sampling.bad_words = {{1}, {4}, {0, 1}};
  const SessionOpening own = Map().ToOwn(open).value();
  EXPECT_THAT(own.tokens, ElementsAre(0, 4, 5, 1, 2)) << "the prefix comes before the prompt";
  EXPECT_EQ(own.prompt_tokens, 2);
  EXPECT_THAT(own.sampling.logit_bias, ElementsAre(std::pair(3, 2.f)));
  EXPECT_THAT(own.sampling.allowed_tokens, ElementsAre(4, 2));
  EXPECT_THAT(own.sampling.bad_words, ElementsAre(ElementsAre(3)));
}

TEST(VocabularyMap, KeepsAPrefixThatIsThere) {
  EXPECT_THAT(Map({4}).ToOwn(Open({0, 1}, 2))->tokens, ElementsAre(4, 3));
  EXPECT_THAT(Map({}).ToOwn(Open({0, 1}, 2))->tokens, ElementsAre(4, 3));
}

TEST(VocabularyMap, RefusesSessionsThatItCannotSay) {
  const Result<SessionOpening> nothing = Map({}).ToOwn(Open({4, 6}, 2));
  EXPECT_EQ(nothing.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(nothing.status().message(), HasSubstr("none of the text's 2 tokens"));
  SessionOpening open = Open({0}, 1);
  open.sampling.allowed_tokens = {3, 4};
  const Result<SessionOpening> barred = Map().ToOwn(open);
  EXPECT_EQ(barred.status().code(), Code::kFailedPrecondition) << "no token is not all tokens";
  EXPECT_THAT(barred.status().message(), HasSubstr("none of the allowed tokens"));
}

TEST(VocabularyMap, TranslatesDrafts) {
  DraftChunk chunk{.tokens = {4, 2},
                   .distributions = {{.ids = {4, 3}, .weights = {65000, 536}},
                                     {.ids = {2}, .weights = {65536}}}};
  Map().ToVerifier(&chunk);
  EXPECT_THAT(chunk.tokens, ElementsAre(0, 2));
  EXPECT_THAT(chunk.distributions[0].ids, ElementsAre(0, 1));
  EXPECT_THAT(chunk.distributions[0].weights, ElementsAre(65000u, 536u));
}

// The race over the drafter's shared tokens is that over the verifier's row with the same values.
TEST(VocabularyMap, RacesByTheVerifiersNoise) {
  const VocabularyMap map = Map();
  const std::vector<RowEntry> entries = {{4, 0.5f}, {3, 0.3f}, {2, 0.2f}};
  const std::vector<float> row = {0.5f, 0.3f, 0.2f, 0.f, 0.f, 0.f, 0.f, 0.f};
  for (uint32_t position = 0; position < 200; ++position) {
    std::vector<TokenId> winners = map.RaceWinners(entries, 2, /*seed=*/9, position);
    for (TokenId& token : winners) token = map.ToVerifier(token);
    EXPECT_EQ(winners, RaceWinners(row, 2, 9, position));
  }
}

}  // namespace
}  // namespace outrider
