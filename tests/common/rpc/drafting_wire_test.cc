#include "common/rpc/drafting_wire.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DraftingWire, PlansRoundTrip) {
  const StopRule stop{.kind = StopRule::Kind::kEntropy, .threshold = 3.f};
  for (const DraftShape& shape :
       {DraftShape(), Sequences(1, 5), Sequences(8, 3), DraftShape{3, {4, 2}}}) {
    v1::Plan wire;
    ToWire(DraftPlan{.round = 7, .shape = shape}, &wire);
    EXPECT_FALSE(wire.has_stop()) << "most plans name none";
    EXPECT_EQ(FromWire(wire)->round, 7u);
    EXPECT_EQ(FromWire(wire)->shape, shape);
    EXPECT_EQ(FromWire(wire)->stop, StopRule());
    ToWire(DraftPlan{.round = 8, .shape = shape, .stop = stop}, &wire);
    EXPECT_EQ(FromWire(wire)->stop, stop);
  }
}

TEST(DraftingWire, HellosRoundTrip) {
  const DrafterHello hello{
      .name = "d0",
      .model = "small",
      .tokenizer = {.vocabulary = 1, .merges = 2, .special_tokens = 3, .vocab_size = 30},
      .vocab_size = 32,
      .max_sessions = 4,
      .max_draft_length = 5,
      .max_draft_tokens = 6,
      .max_context = 7,
      .acceptance_head = true,
      .translates = true,
      .visit = true};
  const DrafterHello back = FromWire(ToWire(hello).hello()).value();
  EXPECT_EQ(back.protocol, (ProtocolRange{.lowest = 3, .highest = 4}));
  EXPECT_EQ(back.name, "d0");
  EXPECT_EQ(back.model, "small");
  EXPECT_EQ(back.tokenizer, hello.tokenizer);
  EXPECT_EQ(back.vocab_size, 32);
  EXPECT_EQ(back.max_sessions, 4);
  EXPECT_EQ(back.max_draft_length, 5);
  EXPECT_EQ(back.max_draft_tokens, 6);
  EXPECT_EQ(back.max_context, 7);
  EXPECT_TRUE(back.acceptance_head);
  EXPECT_TRUE(back.translates);
  EXPECT_TRUE(back.visit);
  const DrafterDemand demand{.wanted = 3, .attached = 2};
  EXPECT_EQ(FromWire(ToWire(demand).demand()), demand);
  const DrafterWelcome welcome{.protocol = 3,
                               .model = "large",
                               .zone = "zone-a",
                               .vocab_limit = 30,
                               .distribution_limits = {.mass = 0.99f, .max_entries = 8}};
  const DrafterWelcome welcomed = FromWire(ToWire(welcome).welcome()).value();
  EXPECT_EQ(welcomed.protocol, 3);
  EXPECT_EQ(welcomed.model, "large");
  EXPECT_EQ(welcomed.zone, "zone-a");
  EXPECT_EQ(welcomed.vocab_limit, 30);
  EXPECT_EQ(welcomed.distribution_limits, welcome.distribution_limits);
  for (const auto& limit : {std::optional<int>(), std::optional(0), std::optional(4)}) {
    const DrafterLoad load{.sessions = 3, .free_pages = 9, .session_limit = limit};
    EXPECT_EQ(FromWire(ToWire(load).load()), load);
  }
}

TEST(DraftingWire, VocabulariesRoundTrip) {
  VocabularyEntries vocabulary;
  ASSERT_TRUE(vocabulary.Add(TokenKind::kText, std::string("\0\xff", 2)).ok());
  ASSERT_TRUE(vocabulary.Add(TokenKind::kNone, "").ok());
  ASSERT_TRUE(vocabulary.Add(TokenKind::kSpecial, "<s>").ok());
  ASSERT_TRUE(vocabulary.Add(TokenKind::kAlias, std::string(1024, 'a')).ok());
  for (const TokenId end : {2, 0}) ASSERT_TRUE(vocabulary.AddEndToken(end).ok());
  const v1::FromVerifier wire = ToWire(vocabulary);
  EXPECT_EQ(FromWire(wire.vocabulary()).value(), vocabulary);
  const VocabularyMatch match{.shared = 7, .tokens = 9};
  EXPECT_EQ(FromWire(ToWire(match).match()), match);
}

TEST(DraftingWire, MalformedVocabulariesAreRefused) {
  const auto words = [](std::vector<uint32_t> entries, const std::string& text,
                        std::vector<uint32_t> ends = {}) {
    v1::Vocabulary wire;
    wire.mutable_entries()->Assign(entries.begin(), entries.end());
    wire.mutable_end_tokens()->Assign(ends.begin(), ends.end());
    wire.set_text(text);
    const Status status = FromWire(wire).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(words({4 * 2 + 1, 4 * 2 + 1}, "abc"), HasSubstr("ends within id 1"));
  EXPECT_THAT(words({4 * 2 + 1}, "abc"), HasSubstr("1 bytes of vocabulary.text"));
  EXPECT_THAT(words({1}, ""), HasSubstr("id 0 is a token without bytes"));
  EXPECT_THAT(words({4 * 1}, "a"), HasSubstr("id 0 has bytes, but no token"));
  EXPECT_THAT(words({4 * 1025 + 1}, std::string(1025, 'a')), HasSubstr("at most 1024"));
  EXPECT_THAT(words({0xffffffffu}, "a"), HasSubstr("ends within id 0"));
  EXPECT_THAT(words({4 * 1 + 3}, "a", {1}), HasSubstr("end token 1 is none of its tokens"));
  EXPECT_THAT(words({4 * 1 + 3}, "a", {0xffffffffu}), HasSubstr("4294967295 is not an id"));
}

TEST(DraftingWire, SessionsRoundTrip) {
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace}) {
    SessionOpening opening;
    opening.session = 5;
    opening.tokens = {1, 2, 3};
    opening.prompt_tokens = 2;
    opening.sampling.temperature = 0.5f;
    opening.seed = 9;
    opening.kind = kind;
    opening.plan = {.round = 7, .shape = Sequences(2, 3)};
    opening.traceparent = "00-0-0-01";
    const SessionOpening back = FromWire(ToWire(opening).open()).value();
    EXPECT_EQ(back.session, 5u);
    EXPECT_THAT(back.tokens, ElementsAre(1, 2, 3));
    EXPECT_EQ(back.prompt_tokens, 2);
    EXPECT_EQ(back.sampling, opening.sampling);
    EXPECT_EQ(back.seed, 9u);
    EXPECT_EQ(back.kind, kind);
    EXPECT_EQ(back.plan.round, 7u);
    EXPECT_EQ(back.plan.shape, opening.plan.shape);
    EXPECT_EQ(back.traceparent, "00-0-0-01");
  }
  const std::vector<SessionVerdict> decisions = {{.session = 5,
                                                  .round = 7,
                                                  .node = 2,
                                                  .next = {4, 6},
                                                  .plan = {.round = 8, .shape = Sequences(1, 1)},
                                                  .acceptance = "ab"},
                                                 {.session = 6, .round = 1}};
  const auto back = FromWire(ToWire(decisions).verdicts()).value();
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].session, 5u);
  EXPECT_EQ(back[0].round, 7u);
  EXPECT_EQ(back[0].node, 2);
  EXPECT_THAT(back[0].next, ElementsAre(4, 6));
  EXPECT_EQ(back[0].plan.round, 8u);
  EXPECT_EQ(back[0].acceptance, "ab");
  EXPECT_EQ(back[1].session, 6u);
}

TEST(DraftingWire, DraftsRoundTrip) {
  const DraftPart part{.session = 5,
                       .round = 7,
                       .chunk = {.tokens = {3, 9, 3, 4},
                                 .parents = {0, 0, 0, 2},
                                 .distributions = {{.ids = {9, 3}, .weights = {65000, 536}},
                                                   {.ids = {4}, .weights = {65536}}},
                                 .more = true},
                       .seconds = 0.25};
  const v1::FromDrafter wire = ToWire(std::vector<DraftPart>{part});
  const auto parts = FromWire(wire.drafts(), /*max_row_entries=*/2);
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 1u);
  const DraftPart& back = parts->at(0);
  EXPECT_EQ(back.session, 5u);
  EXPECT_EQ(back.round, 7u);
  EXPECT_EQ(back.seconds, 0.25);
  EXPECT_THAT(back.chunk.tokens, ElementsAre(3, 9, 3, 4));
  EXPECT_THAT(back.chunk.parents, ElementsAre(0, 0, 0, 2));
  ASSERT_EQ(back.chunk.distributions.size(), 2u);
  EXPECT_THAT(wire.drafts().drafts(0).rows(0).id_gaps(), ElementsAre(3u, 6u))
      << "rising, however the drafter has them";
  EXPECT_THAT(back.chunk.distributions[0].ids, ElementsAre(3, 9));
  EXPECT_THAT(back.chunk.distributions[0].weights, ElementsAre(536u, 65000u));
  EXPECT_THAT(back.chunk.distributions[1].ids, ElementsAre(4));
  EXPECT_TRUE(back.chunk.more);
  EXPECT_FALSE(back.early.has_value());
}

TEST(DraftingWire, EarlyDraftsSayWhatTheyGuess) {
  for (const RoundEnd end : {RoundEnd{.node = 0, .next = 0}, RoundEnd{.node = 3, .next = 70000}}) {
    const DraftPart part{.session = 5, .round = 7, .chunk = {.tokens = {3}}, .early = end};
    const v1::FromDrafter wire = ToWire(std::vector<DraftPart>{part});
    const auto parts = FromWire(wire.drafts(), /*max_row_entries=*/2);
    ASSERT_TRUE(parts.ok());
    EXPECT_EQ(parts->at(0).early, end);
  }
}

TEST(DraftingWire, GreedySequenceIsOnlyTokens) {
  v1::Draft wire;
  wire.add_token_ids(5);
  const Result<DraftPart> part = FromWire(wire);
  ASSERT_TRUE(part.ok());
  EXPECT_THAT(part->chunk.tokens, ElementsAre(5));
  EXPECT_THAT(part->chunk.parents, IsEmpty());
  EXPECT_THAT(part->chunk.distributions, IsEmpty());
  EXPECT_FALSE(part->chunk.more);
}

TEST(DraftingWire, RefusesExcessRowsOrParents) {
  v1::DraftBatch batch;
  v1::Draft* draft = batch.add_drafts();
  draft->add_token_ids(1);
  draft->add_rows();
  draft->add_parents(0);
  EXPECT_TRUE(FromWire(batch, 64).ok());
  draft->add_rows();
  EXPECT_THAT(FromWire(batch, 64).status().message(), HasSubstr("2 rows for 1"));
  draft->mutable_rows()->RemoveLast();
  draft->add_parents(0);
  EXPECT_THAT(FromWire(batch, 64).status().message(), HasSubstr("2 parents"));
}

TEST(DraftingWire, MalformedDraftsAreRefused) {
  v1::Draft arrays;  // two ids, one weight
  arrays.add_token_ids(1);
  arrays.add_rows()->add_id_gaps(1);
  arrays.mutable_rows(0)->add_id_gaps(2);
  arrays.mutable_rows(0)->add_weights(65536);
  v1::Draft token;  // an id that would become negative
  token.add_token_ids(0x80000000u);
  v1::Draft parent;
  parent.add_token_ids(1);
  parent.add_parents(0xffffffffu);
  v1::Draft entry;
  entry.add_token_ids(1);
  entry.add_rows()->add_id_gaps(0xffffffffu);
  entry.mutable_rows(0)->add_weights(65536);
  v1::Draft sum;  // each gap fits, their sum does not
  sum.add_token_ids(1);
  sum.add_rows();
  for (int i = 0; i < 2; ++i) {
    sum.mutable_rows(0)->add_id_gaps(0x7fffffffu);
    sum.mutable_rows(0)->add_weights(32768);
  }
  v1::Draft large;
  for (int i = 0; i <= kMaxChunkDraws; ++i) large.add_token_ids(1);
  for (const v1::Draft& wire : {arrays, token, parent, entry, sum, large}) {
    EXPECT_EQ(FromWire(wire).status().code(), Code::kInvalidArgument) << wire.ShortDebugString();
  }
  large.mutable_token_ids()->RemoveLast();
  EXPECT_TRUE(FromWire(large).ok());
}

}  // namespace
}  // namespace outrider
