// Sessions of a verifier with another vocabulary in the drafting loop.
#include <gmock/gmock.h>

#include <cstddef>
#include <set>
#include <vector>

#include "common/spec/sequence_sampling.h"
#include "tests/drafter/propose/loop_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

constexpr int kShared = 27;

class TranslatedSession : public LoopTest {
 protected:
  void StartTranslating() {
    vocabulary_ = FallingVocabulary(kVocab, kShared);
    Start({.vocab_size = kVocab});
  }
};

TEST_F(TranslatedSession, FeedsItsOwnTokens) {
  StartTranslating();
  Push(Opening(1, 1, {4, 29, 20}));
  StepToRest();
  ASSERT_FALSE(model_->batches().empty());
  EXPECT_THAT(model_->batches()[0][0].tokens, ElementsAre(27, 2, 3, 11));
}

TEST_F(TranslatedSession, DraftsSharedTokensAlone) {
  limits_ = {.mass = 1.f, .max_entries = kVocab};
  StartTranslating();
  std::set<TokenId> ids;
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace}) {
    for (uint64_t session = 1; session <= 40; ++session) {
      SessionOpening open = Opening(session, Sequences(2, 4), {31, 2, 20});
      open.kind = kind;
      if (kind == DraftKind::kArgmax) open.sampling.temperature = 0;
      Push(open);
      const DraftTree draft = TheDraft();
      EXPECT_TRUE(Validate(draft, open.plan.shape, kind == DraftKind::kSampled, kVocab).ok());
      for (int node = 1; node <= draft.size(); ++node) {
        EXPECT_LT(draft.token(node), kShared);
        ids.insert(draft.token(node));
      }
      for (const TokenId id : draft.distribution(DraftTree::kRoot).ids) EXPECT_LT(id, kShared);
      if (kind == DraftKind::kSampled) {
        EXPECT_EQ(draft.distribution(DraftTree::kRoot).ids.size(), static_cast<size_t>(kShared));
      }
    }
  }
  EXPECT_GT(ids.size(), 20u);
}

// Exact in every weight: the draft model's distribution without the tokens that are not shared.
TEST_F(TranslatedSession, SendsTheRestrictedDistribution) {
  StartTranslating();
  SessionOpening open = Opening(1, 1, {4, 20});
  open.sampling = {.temperature = 0.7f, .top_k = 9, .logit_bias = {{20, 2.f}, {30, 5.f}}};
  Push(open);
  const DraftTree draft = TheDraft();
  ASSERT_EQ(draft.size(), 1);
  const std::vector<TokenId> fed = {27, 11};
  std::vector<float> row = model_->Logits(fed);
  std::vector<float> shared(kVocab, -100.f);  // by the verifier's ids
  for (TokenId id = 0; id < kShared; ++id) {
    shared[static_cast<size_t>(id)] = row[static_cast<size_t>(kVocab - 1 - id)];
  }
  SamplingParams same = open.sampling;
  same.logit_bias = {{20, 2.f}};
  SequenceSampling sampling(same, kVocab, kShared);
  MakeDistribution(sampling.state(), kShared, {}, shared);
  const DraftDistribution expected = MakeDraftDistribution(shared, limits_);
  const DraftDistribution& sent = draft.distribution(DraftTree::kRoot);
  EXPECT_THAT(sent.ids, ::testing::UnorderedElementsAreArray(expected.ids));
  for (const TokenId id : expected.ids) {
    EXPECT_NEAR(Probability(sent, id), Probability(expected, id), 1.5 / kDraftWeightTotal) << id;
  }
}

// The tokens of a verdict may correspond to several of ours each, or to none.
TEST_F(TranslatedSession, FollowsVerdicts) {
  StartTranslating();
  Push(Opening(1, 3, {31, 20}));
  const DraftTree draft = TheDraft();
  ASSERT_EQ(draft.size(), 3);
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 2,
                      .next = {30, 9},
                      .plan = {.round = 2, .shape = Sequences(1, 2)}});
  const DraftTree second = TheDraft();
  EXPECT_EQ(second.size(), 2);
  // The same text opened from scratch gives the same draft.
  SessionOpening open = Opening(2, 2, {31, 20, draft.token(1), draft.token(2), 30, 9});
  open.prompt_tokens = 2;
  open.seed = 1001;
  open.plan.round = 2;
  Push(open);
  const DraftTree again = TheDraft();
  ASSERT_EQ(again.size(), 2);
  EXPECT_EQ(again.Path(2), second.Path(2));
}

TEST_F(TranslatedSession, RefusesTokensOutsideVerifiersVocabulary) {
  StartTranslating();
  Push(Opening(1, 3, {31, kVocab}));
  StepToRest();
  const std::vector<DraftPart> parts = link_->TakeDrafts();
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_TRUE(parts[0].chunk.tokens.empty());
}

// A row that masks exclude entirely is a point mass on token 0, which is not shared.
TEST_F(TranslatedSession, RepeatsTokenWhereMasksLeaveNothing) {
  const auto vocabulary = FallingVocabulary(kVocab, kShared);
  ASSERT_EQ(vocabulary->ToVerifier(0), -1);
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace}) {
    DraftTreeBuilder builder(
        {.kind = kind, .shape = Sequences(1, 3), .vocabulary = vocabulary.get()});
    const std::vector<RowEntry> shared = {{20, 1.f}}, nothing = {{0, 1.f}};
    builder.DrawDepth(std::vector<PickedRow>{{.entries = shared}}, {});
    ASSERT_EQ(builder.frontier().size(), 1u);
    builder.DrawDepth(std::vector<PickedRow>{{.entries = nothing}}, {});
    EXPECT_EQ(builder.frontier().size(), 1u);
    EXPECT_EQ(builder.tree().Path(2), (std::vector<TokenId>{20, 20}));
    EXPECT_EQ(builder.broken_rows(), 0);
    DraftTree sent;
    ASSERT_TRUE(sent.Append(builder.TakeChunk()).ok());
    EXPECT_TRUE(Validate(sent, Sequences(1, 3), kind == DraftKind::kSampled, kVocab).ok());
  }
}

TEST_F(TranslatedSession, RefusesIfNoTokenIsAllowed) {
  StartTranslating();
  SessionOpening open = Opening(1, 3, {31, 20});
  open.sampling.allowed_tokens = {9};
  open.sampling.bad_words = {{9}};
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kRace}) {
    open.kind = kind;
    Push(open);
    StepToRest();
    const std::vector<DraftPart> parts = link_->TakeDrafts();
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_TRUE(parts[0].chunk.tokens.empty());
  }
}

}  // namespace
}  // namespace outrider
