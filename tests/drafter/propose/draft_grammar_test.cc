// Drafts of sessions whose texts follow a grammar follow it, too.
#include "common/grammar/draft_grammar.h"

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "tests/drafter/propose/loop_fixture.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

// Tokens 0 to 25 are the letters; 30 ends a text; the rest are special.
std::shared_ptr<const grammar::TokenTable> Letters() {
  static const std::string alphabet = "abcdefghijklmnopqrstuvwxyz";
  std::vector<std::string_view> bytes(32);
  for (size_t i = 0; i < alphabet.size(); ++i) bytes[i] = std::string_view(alphabet).substr(i, 1);
  return grammar::TokenTable::Create(bytes, {{30}}, 32).value();
}

class DraftGrammarTest : public LoopTest {
 protected:
  void StartWithGrammars() { Start({.eos_token_ids = {30}}, {.grammars = &grammars_}); }

  static SessionOpening Following(uint64_t id, DraftShape shape, const std::string& regex,
                                  std::vector<TokenId> output = {}) {
    SessionOpening open = Opening(id, std::move(shape));
    open.tokens.insert(open.tokens.end(), output.begin(), output.end());
    open.sampling.grammar = {.kind = GrammarSource::Kind::kRegex, .text = regex};
    return open;
  }

  // The next parts, once a grammar has been compiled on its thread.
  std::vector<DraftPart> NextParts() { return NextParts(*link_); }
  std::vector<DraftPart> NextParts(PuppetVerifierLink& link) {
    std::vector<DraftPart> parts;
    const auto deadline = std::chrono::steady_clock::now() + testing::kTimeLimit;
    while (parts.empty() && std::chrono::steady_clock::now() < deadline) {
      StepToRest();
      parts = link.TakeDrafts();
      if (parts.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return parts;
  }

  // Each path of the draft continues a text of the grammar after the output so far.
  void ExpectOfTheGrammar(const DraftTree& draft, const SessionOpening& open) {
    grammar::MaskScratch scratch;
    grammar::DraftGrammar text(grammars_.Get(*open.sampling.grammar).value(), {});
    for (size_t i = static_cast<size_t>(open.prompt_tokens); i < open.tokens.size(); ++i) {
      ASSERT_TRUE(text.Advance(open.tokens[i], scratch));
    }
    for (int node = 1; node <= draft.size(); ++node) {
      const std::vector<TokenId> path = draft.Path(node);
      // An end token, and what a draft has after it, are not part of the text.
      const auto letters =
          static_cast<size_t>(std::find(path.begin(), path.end(), 30) - path.begin());
      EXPECT_EQ(text.Reads(std::span(path).first(letters), scratch), letters) << node;
    }
  }

  // Every "a" may be the one that 400 letters follow, so that there are hundreds of ways to read
  // the text, which together takes more steps than a verifier may save and owe.
  static SessionOpening Costly(uint64_t id) {
    std::vector<TokenId> text;
    for (int i = 0; i < 1000; ++i) text.insert(text.end(), {0, 1});
    return Following(id, Sequences(1, 12), "[ab]*a[ab]{400}", text);
  }

  grammar::GrammarCache grammars_{Letters(), {}};
};

TEST_F(DraftGrammarTest, DraftsKeepToTheGrammar) {
  StartWithGrammars();
  // For each kind of draft, and for several sequences.
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace}) {
    const auto id = static_cast<uint64_t>(kind) + 1;
    SessionOpening open = Following(id, Sequences(3, 6), "(b[ac]|d{2})*z", {1, 2, 3});
    open.kind = kind;
    if (kind == DraftKind::kArgmax) open.sampling.temperature = 0;
    Push(open);
    const DraftTree draft = Assemble(NextParts());
    EXPECT_FALSE(draft.empty());
    ExpectOfTheGrammar(draft, open);
  }
}

TEST_F(DraftGrammarTest, DraftsContinueFromRoundToRound) {
  StartWithGrammars();
  SessionOpening open = Following(1, Sequences(1, 4), "(b[ac]|d{2})*z");
  Push(open);
  uint32_t round = 1;
  for (int i = 0; i < 40; ++i) {
    const DraftTree draft = Assemble(NextParts());
    ASSERT_FALSE(draft.empty());
    ExpectOfTheGrammar(draft, open);
    // The first token is accepted; a token other than the draft's may follow if there is one.
    const TokenId first = draft.token(1);
    if (first == 25) return;  // the text is complete
    const TokenId next = first == 3 ? 3 : first == 1 ? 2 : 1;
    open.tokens.insert(open.tokens.end(), {first, next});
    Push(SessionVerdict{.session = 1,
                        .round = round,
                        .node = 1,
                        .next = {next},
                        .plan = {.round = round + 1, .shape = Sequences(1, 4)}});
    ++round;
  }
}

TEST_F(DraftGrammarTest, RefusesVerdictOutsideGrammar) {
  StartWithGrammars();
  Push(Following(1, Sequences(1, 2), "b[ac]z"));
  ASSERT_FALSE(Assemble(NextParts()).empty());
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 0,
                      .next = {5},
                      .plan = {.round = 2, .shape = Sequences(1, 2)}});
  EXPECT_TRUE(Assemble(NextParts()).empty());
  ExpectEverythingBack();
}

TEST_F(DraftGrammarTest, RefusesVerdictBeforeGrammarIsCompiled) {
  StartWithGrammars();
  Push(Following(1, Sequences(1, 2), "b[ac]z"));
  Push(SessionVerdict{.session = 1,
                      .round = 1,
                      .node = 0,
                      .next = {1},
                      .plan = {.round = 2, .shape = Sequences(1, 2)}});
  StepToRest();
  const std::vector<DraftPart> refused = link_->TakeDrafts();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].round, 2u);
  EXPECT_TRUE(refused[0].chunk.tokens.empty());
  // After reopening, it is drafted for again; the first opening is forgotten.
  Push(Following(1, Sequences(1, 2), "b[ac]z", {1}));
  const DraftTree draft = Assemble(NextParts());
  ASSERT_FALSE(draft.empty());
  EXPECT_TRUE(draft.token(1) == 0 || draft.token(1) == 2);
  EXPECT_EQ(loop_->load().sessions, 1);
}

TEST_F(DraftGrammarTest, SessionClosedDuringCompilationStaysClosed) {
  StartWithGrammars();
  Push(Following(1, Sequences(1, 2), "b[ac]z"));
  Push(CloseEvent{.session = 1});
  Push(Following(2, Sequences(1, 2), "bz"));  // compiled after the other one
  const std::vector<DraftPart> parts = NextParts();
  ASSERT_FALSE(parts.empty());
  EXPECT_EQ(parts[0].session, 2u);
  EXPECT_EQ(loop_->load().sessions, 1);
}

TEST_F(DraftGrammarTest, CostlyTextsLoseGrammarsBesideOthers) {
  const SessionOpening costly = Costly(1);
  for (const bool is_alone : {true, false}) {
    Start({.total_pages = 1024, .max_position_embeddings = 4096, .eos_token_ids = {30}},
          {.grammars = &grammars_});
    const auto other = is_alone ? nullptr : Connect(8);
    Push(costly);
    const DraftTree draft = Assemble(NextParts());
    if (is_alone) {
      ExpectOfTheGrammar(draft, costly);
      continue;
    }
    const std::vector<TokenId> path = draft.Path(draft.size());
    EXPECT_TRUE(std::any_of(path.begin(), path.end(), [](TokenId token) { return token > 1; }));
    // The other verifier's sessions keep theirs.
    const SessionOpening cheap = Following(1, Sequences(3, 6), "(b[ac]|d{2})*z", {1, 2, 3});
    Push(cheap, 8);
    ExpectOfTheGrammar(Assemble(NextParts(*other)), cheap);
    // Once there is a share again, too.
    for (int i = 0; i < 100; ++i) loop_->Step();
    Push(SessionVerdict{.session = 1,
                        .round = 1,
                        .node = 0,
                        .next = {25},
                        .plan = {.round = 2, .shape = Sequences(1, 2)}});
    EXPECT_FALSE(Assemble(NextParts()).empty()) << "its text is not followed any more";
  }
}

TEST_F(DraftGrammarTest, ShareEndsMasksBeforeReading) {
  grammar::MaskScratch scratch;
  const SessionOpening costly = Costly(1);
  grammar::DraftGrammar text(grammars_.Get(*costly.sampling.grammar).value(), {});
  GrammarShare share(&scratch);
  auto token = costly.tokens.begin() + costly.prompt_tokens;
  const auto read = [&] {
    return share.SpendOnReading([&](auto& s) { return text.Advance(*token++, s); });
  };
  share.Refill(2);
  while (share.CanMask()) ASSERT_TRUE(read());
  EXPECT_LT(scratch.stepper.steps(), 2 * GrammarShare::kSteps) << "a new one has saved nothing";
  EXPECT_TRUE(share.CanRead());
  while (share.CanRead()) ASSERT_TRUE(read());
  EXPECT_GT(scratch.stepper.steps(), GrammarShare::kMostForReading);
  const int64_t owed = GrammarShare::kMostForReading - 2 * GrammarShare::kSteps;
  for (int64_t step = 0; step < 2 * owed / GrammarShare::kSteps; ++step) {
    EXPECT_FALSE(share.CanMask()) << step;
    share.Refill(2);
  }
  share.SetUnlimited();
  EXPECT_TRUE(share.CanMask()) << "nobody else waits";
}

TEST_F(DraftGrammarTest, CostlyMaskLeavesReading) {
  grammar::MaskScratch scratch;
  GrammarShare share(&scratch);
  const auto work = [](grammar::MaskScratch& s) {
    s.stepper.Charge(66'000'000);
    return true;
  };
  share.Refill(2);
  share.SpendOnMask(work);
  EXPECT_FALSE(share.CanMask());
  EXPECT_TRUE(share.CanRead());
  share.SpendOnReading(work);
  EXPECT_FALSE(share.CanRead());
}

TEST_F(DraftGrammarTest, IdleVerifiersTakeNoShare) {
  Start({.total_pages = 1024, .max_position_embeddings = 4096, .eos_token_ids = {30}},
        {.grammars = &grammars_});
  std::vector<std::shared_ptr<PuppetVerifierLink>> idle;
  for (uint64_t id = 100; id < 116; ++id) idle.push_back(Connect(id));
  SessionOpening open = Following(2, Sequences(1, 6), "(b[ac]|d{2})*z", {1, 2, 3});
  Push(open);
  const DraftTree draft = Assemble(NextParts());
  ASSERT_FALSE(draft.empty());
  Push(Costly(1));
  Assemble(NextParts());  // no masks are left, and the text is not followed
  for (int i = 0; i < 50; ++i) loop_->Step();
  open.tokens.push_back(3);
  Push(SessionVerdict{.session = 2,
                      .round = 1,
                      .node = 0,
                      .next = {3},
                      .plan = {.round = 2, .shape = Sequences(1, 6)}});
  ExpectOfTheGrammar(Assemble(NextParts()), open);
}

TEST_F(DraftGrammarTest, DraftsWithoutMasksIfCompilationFails) {
  StartWithGrammars();
  Push(Following(1, Sequences(1, 3), "("));
  EXPECT_EQ(Assemble(NextParts()).size(), 3);
}

}  // namespace
}  // namespace outrider
