#include "common/text/fingerprint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/common/text/tiny_tokenizers.h"

namespace outrider {
namespace {

TokenizerFingerprint Of(const std::string& json) { return MakeTokenizer(json)->fingerprint(); }

const MergeList kMerges = {{"a", "b"}, {"ab", "c"}};

TEST(Fingerprint, IgnoresFormattingOfFile) {
  const std::string json = ByteLevelJson(kMerges);
  const auto parsed = nlohmann::json::parse(json);
  EXPECT_EQ(Of(parsed.dump(2)), Of(json));
  EXPECT_EQ(Of(parsed.dump(-1, ' ', true)), Of(json));  // \u escapes
  EXPECT_EQ(Of(With(json, "/model/merges", R"([["a", "b"], ["ab", "c"]])")), Of(json));
  EXPECT_EQ(DescribeMismatch(Of(json), Of(json)), "");
}

TEST(Fingerprint, IgnoresOrderOfVocabulary) {
  // A list of members in file order, which nlohmann::json does not keep.
  const std::string head = R"({"model": {"merges": [], "vocab": {)";
  EXPECT_EQ(Of(head + R"("a": 0, "b": 1}}})"), Of(head + R"("b": 1, "a": 0}}})"));
  EXPECT_NE(Of(head + R"("a": 0, "b": 1}}})"), Of(head + R"("b": 0, "a": 1}}})"));
}

TEST(Fingerprint, TellsTokenStringsApart) {
  const auto target = Of(With(ByteLevelJson({}), "/added_tokens/-", AddedTokenJson(256, "<x>")));
  const auto drafter = Of(With(ByteLevelJson({}), "/added_tokens/-", AddedTokenJson(256, "<y>")));
  EXPECT_EQ(DescribeMismatch(target, drafter),
            "both have 257 tokens, but the token strings differ");
}

TEST(Fingerprint, TellsTokenCountsApart) {
  const auto target = Of(With(ByteLevelJson({}), "/added_tokens/-", AddedTokenJson(256, "<x>")));
  EXPECT_EQ(DescribeMismatch(target, Of(ByteLevelJson({}))),
            "the target has 257 tokens, the drafter 256");
}

TEST(Fingerprint, TellsTheOrderOfMergesApart) {
  const std::string json = ByteLevelJson(kMerges);
  const auto swapped = Of(With(json, "/model/merges", R"(["ab c", "a b"])"));
  EXPECT_EQ(DescribeMismatch(Of(json), swapped), "the merges differ");
}

TEST(Fingerprint, TellsSpecialTokensApart) {
  const auto target =
      Of(With(ByteLevelJson({}), "/added_tokens/-", AddedTokenJson(256, "<x>", {"special"})));
  const auto drafter = Of(With(ByteLevelJson({}), "/added_tokens/-", AddedTokenJson(256, "<x>")));
  EXPECT_EQ(DescribeMismatch(target, drafter), "the sets of special tokens differ");
}

TEST(Fingerprint, NamesAllDifferences) {
  const TokenizerFingerprint target{1, 2, 3, 4}, drafter{5, 6, 7, 8};
  EXPECT_EQ(DescribeMismatch(target, drafter),
            "the target has 4 tokens, the drafter 8; the merges differ; the sets of special "
            "tokens differ");
}

// The two services may run different builds, whose fingerprints must not differ.
TEST(Fingerprint, KeepsItsValues) {
  const TokenizerFingerprint fingerprint = Of(ByteLevelJson(kMerges));
  EXPECT_EQ(fingerprint.vocab_size, 258);
  EXPECT_EQ(fingerprint.special_tokens, 0xCBF29CE484222325u);  // FNV-1a of the empty string
  EXPECT_EQ(fingerprint.merges, 685824776598773922u);
  EXPECT_EQ(fingerprint.vocabulary, 2543780666411846844u);
}

}  // namespace
}  // namespace outrider
