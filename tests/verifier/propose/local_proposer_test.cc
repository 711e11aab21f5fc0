#include "verifier/propose/local_proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/verifier/propose/texts.h"
#include "verifier/propose/point_draft.h"

namespace outrider::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

LocalProposerOptions Options() {
  LocalProposerOptions options;
  options.suffix_length_per_match = 4;
  options.suffix_min_probability = 0;
  return options;
}

TEST(LocalProposer, ProposesFromTheSessionsOwnText) {
  const LocalProposerOptions options = Options();
  LocalProposer proposer(options, nullptr, "ann");
  proposer.Observe(Text{1, 2, 3, 4, 5, 6});
  proposer.Observe(Text{});
  proposer.Observe(Text{1, 2, 3});
  for (const LocalSource source : {LocalSource::kLookup, LocalSource::kSuffix}) {
    const LocalProposal& proposal = proposer.Propose(source, 3);
    EXPECT_THAT(proposal.tokens, ElementsAre(4, 5, 6));
    EXPECT_EQ(proposal.match_length, 3);
    EXPECT_EQ(proposal.score, 3);
  }
}

TEST(LocalProposer, HasNothingToSayAtFirst) {
  const LocalProposerOptions options = Options();
  SuffixStore store({.max_tokens = 800});
  LocalProposer proposer(options, &store, "ann");
  for (const Text& text : {Text{}, Text{1}, Text{2, 3}}) {
    proposer.Observe(text);
    for (const LocalSource source : {LocalSource::kLookup, LocalSource::kSuffix}) {
      EXPECT_THAT(proposer.Propose(source, 4).tokens, IsEmpty());
      EXPECT_EQ(proposer.Propose(source, 4).score, 0);
    }
  }
}

TEST(LocalProposer, ProposesNothingWhereNothingIsAsked) {
  const LocalProposerOptions options = Options();
  LocalProposer proposer(options, nullptr, "");
  proposer.Observe(Text(10, 1));
  for (const LocalSource source : {LocalSource::kLookup, LocalSource::kSuffix}) {
    EXPECT_THAT(proposer.Propose(source, 0).tokens, IsEmpty());
    EXPECT_THAT(proposer.Propose(source, -1).tokens, IsEmpty());
  }
}

TEST(LocalProposer, DraftsGrowWithTheMatch) {
  LocalProposerOptions options = Options();
  options.suffix_length_per_match = 1.5;
  LocalProposer proposer(options, nullptr, "");
  proposer.Observe(Text{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2});
  EXPECT_THAT(proposer.Propose(LocalSource::kSuffix, 8).tokens, ElementsAre(3, 4, 5));
  proposer.Observe(Text{3});
  EXPECT_THAT(proposer.Propose(LocalSource::kSuffix, 8).tokens, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(proposer.Propose(LocalSource::kSuffix, 2).tokens, ElementsAre(4, 5));
}

TEST(LocalProposer, DraftsEndWhereTheyBecomeUnlikely) {
  LocalProposerOptions options = Options();
  options.suffix_min_probability = 0.6;
  LocalProposer proposer(options, nullptr, "");
  proposer.Observe(Text{1, 2, 3, 4, 50, 1, 2, 3, 5, 51, 1, 2});
  const LocalProposal& proposal = proposer.Propose(LocalSource::kSuffix, 8);
  EXPECT_THAT(proposal.tokens, ElementsAre(3));
  EXPECT_EQ(proposal.score, 1);
}

TEST(LocalProposer, TakesBetterOfTextAndStore) {
  const LocalProposerOptions options = Options();
  SuffixStore store({.max_tokens = 8000});
  store.Add("ann", Text{1, 2, 3, 4, 5, 6, 7});
  LocalProposer ann(options, &store, "ann"), bob(options, &store, "bob");
  for (LocalProposer* proposer : {&ann, &bob}) proposer->Observe(Text{8, 1, 2, 3});
  EXPECT_THAT(ann.Propose(LocalSource::kSuffix, 3).tokens, ElementsAre(4, 5, 6));
  EXPECT_EQ(ann.Propose(LocalSource::kSuffix, 3).match_length, 3);
  EXPECT_THAT(bob.Propose(LocalSource::kSuffix, 3).tokens, IsEmpty());
  // Its own text is equally likely, and takes precedence.
  ann.Observe(Text{30, 31, 32, 33, 34, 1, 2, 3});
  EXPECT_THAT(ann.Propose(LocalSource::kSuffix, 3).tokens, ElementsAre(30, 31, 32));
}

// A match of two tokens promises no less than one of three here, but is based on less context.
TEST(LocalProposer, TakesLongerMatchOnEqualScores) {
  const LocalProposerOptions options = Options();
  SuffixStore store({.max_tokens = 8000});
  store.Add("ann", Text{1, 2, 3, 4, 5});
  LocalProposer proposer(options, &store, "ann");
  proposer.Observe(Text{2, 3, 6, 7, 1, 2, 3});
  EXPECT_THAT(proposer.Propose(LocalSource::kSuffix, 2).tokens, ElementsAre(4, 5));
}

TEST(LocalProposer, RemembersForItsClientAlone) {
  const LocalProposerOptions options = Options();
  SuffixStore store({.max_tokens = 8000});
  LocalProposer(options, &store, "ann").Remember(Text{1, 2, 3, 4});
  LocalProposer ann(options, &store, "ann"), bob(options, &store, "bob");
  for (LocalProposer* proposer : {&ann, &bob}) proposer->Observe(Text{1, 2});
  EXPECT_THAT(ann.Propose(LocalSource::kSuffix, 2).tokens, ElementsAre(3, 4));
  EXPECT_THAT(bob.Propose(LocalSource::kSuffix, 2).tokens, IsEmpty());
  LocalProposer(options, nullptr, "ann").Remember(Text{1, 2});
}

TEST(LocalProposer, LearnsFromTextsAddedMeanwhile) {
  const LocalProposerOptions options = Options();
  SuffixStore store({.max_tokens = 8000});
  LocalProposer proposer(options, &store, "ann");
  proposer.Observe(Text{1, 2, 3});
  EXPECT_THAT(proposer.Propose(LocalSource::kSuffix, 3).tokens, IsEmpty());
  store.Add("ann", Text{1, 2, 3, 4, 5});
  EXPECT_THAT(proposer.Propose(LocalSource::kSuffix, 3).tokens, ElementsAre(4, 5));
}

// In whatever pieces a sequence was observed, its last tokens are looked up.
TEST(LocalProposer, FollowsContextInStoreByTokens) {
  const LocalProposerOptions options = Options();
  SuffixStore store({.max_tokens = 8000});
  Text text(900);
  std::iota(text.begin(), text.end(), 100);
  store.Add("ann", text);
  for (const size_t piece : {1, 3, 50, 90}) {
    LocalProposer proposer(options, &store, "ann");
    for (size_t pos = 0; pos + piece <= 600; pos += piece) {
      proposer.Observe(std::span(text).subspan(pos, piece));
      const size_t observed = pos + piece;
      if (pos % 7 != 0 || observed < 2) continue;  // it is used only sometimes
      if (pos % 2 == 0) store.Add("ann", Text{1});
      const LocalProposal& proposal = proposer.Propose(LocalSource::kSuffix, 4);
      ASSERT_GE(proposal.match_length,
                std::min<int>(SuffixStore::kContext, static_cast<int>(observed)));
      ASSERT_THAT(proposal.tokens, ElementsAreArray(std::span(text).subspan(observed, 4)));
    }
  }
}

TEST(LocalProposer, ProposalsPassAsDrafts) {
  std::mt19937_64 rng(1);
  const LocalProposerOptions options = Options();
  SuffixStore store({.max_tokens = 2000});
  int drafts = 0;
  for (int i = 0; i < 200; ++i) {
    const int vocab = 2 + static_cast<int>(rng() % 6);
    LocalProposer proposer(options, &store, "ann");
    for (int round = 0; round < 20; ++round) {
      proposer.Observe(RandomText(rng, static_cast<int>(rng() % 5), vocab));
      const int length = static_cast<int>(rng() % 7);
      for (const LocalSource source : {LocalSource::kLookup, LocalSource::kSuffix}) {
        const auto& tokens = proposer.Propose(source, length).tokens;
        drafts += !tokens.empty();
        ASSERT_TRUE(
            Validate(ToDraft(tokens, DraftKind::kSampled), Sequences(1, length), true, 8).ok());
      }
    }
    store.Add("ann", RandomText(rng, 50, vocab));
  }
  EXPECT_GT(drafts, 2000);
}

TEST(LocalProposer, CanBeSwitchedOffInParts) {
  LocalProposerOptions without_lookup = Options(), without_suffix = Options();
  without_lookup.lookup.max_tokens = 0;
  without_suffix.suffix_max_tokens = 0;
  LocalProposer suffix(without_lookup, nullptr, ""), lookup(without_suffix, nullptr, "");
  for (LocalProposer* proposer : {&suffix, &lookup}) proposer->Observe(Text(6, 1));
  EXPECT_THAT(suffix.Propose(LocalSource::kLookup, 2).tokens, IsEmpty());
  EXPECT_THAT(suffix.Propose(LocalSource::kSuffix, 2).tokens, ElementsAre(1, 1));
  EXPECT_THAT(lookup.Propose(LocalSource::kLookup, 2).tokens, ElementsAre(1, 1));
  EXPECT_THAT(lookup.Propose(LocalSource::kSuffix, 2).tokens, IsEmpty());
}

}  // namespace
}  // namespace outrider::testing
