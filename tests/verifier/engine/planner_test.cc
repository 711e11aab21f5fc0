#include "verifier/engine/planner.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PlannerOptions WithPolicy(const std::string& policy) { return {.control = {.policy = policy}}; }

const DraftTiming kNear{.network = 1e-3, .depth = 1e-4};
const Situation kRoomy{.remaining = 100, .room = 64, .drafter = kNear};
const Situation kUnknown{.remaining = 100, .room = 64, .drafter = DraftTiming{}};

DraftTree DraftOf(int length) {
  DraftTree draft;
  for (int depth = 0; depth < length; ++depth) draft.AddDraw(depth, 1);
  return draft;
}

class PlannerTest : public ::testing::Test {
 protected:
  std::unique_ptr<SessionPlanner> Open(const std::string& policy,
                                       const GenerationRequest& request = {.prompt = {1}}) {
    planner_.emplace(WithPolicy(policy), nullptr);
    return OpenAnother(request);
  }
  // The first session of an adaptive planner that knows what rows cost.
  std::unique_ptr<SessionPlanner> OpenTimed() {
    PlannerOptions timed = WithPolicy("adaptive");
    timed.passes = {{.rows = 1, .seconds = 1e-3}, {.rows = 8, .seconds = 1.1e-3}};
    planner_.emplace(timed, nullptr);
    return OpenAnother();
  }

  // Another session of the same planner.
  std::unique_ptr<SessionPlanner> OpenAnother(const GenerationRequest& request = {.prompt = {1}}) {
    return planner_->Open(request, ResolveSpeculation(request, {.draft_length = 4}, kLimits));
  }
  // A step that ends a round of one session.
  void OnStep(int rows, double seconds) {
    planner_->OnStep({.sessions = 1, .planned = 1, .rows = rows, .seconds = seconds});
  }
  // A round of which nothing is accepted, with a step of `step` seconds and a drafter that takes
  // `drafting` seconds per depth, which is not known before. Returns the length of its draft.
  int PlayRound(SessionPlanner* session, double step, double drafting) {
    const int length = session->Choose(kUnknown, 0).shape.length;
    const double drafted = length * drafting;
    if (length > 0) session->OnDrafted(DraftOf(length), drafted + 1e-4, drafted);
    OnStep(1 + length, step);
    session->Conclude({.accepted = 0, .drafted = length, .emitted = 1, .seconds = step + drafted});
    return length;
  }

  static inline const RequestLimits kLimits{
      .vocab_size = 100, .max_draft_length = 16, .max_paths = 8, .max_draft_tokens = 128};
  std::optional<Planner> planner_;
};

TEST_F(PlannerTest, ServesArmsWithinTheServersLimits) {
  const auto all = ServedArms({});
  std::set<std::string> names;
  std::set<Proposer::Kind> kinds;
  for (const Arm& arm : all) {
    names.insert(arm.name);
    kinds.insert(arm.proposer.kind);
  }
  EXPECT_EQ(names.size(), all.size());
  EXPECT_EQ(kinds.size(), 4u);
  EXPECT_TRUE(ArmSet::Create(all).ok());
  for (const Arm& arm : ServedArms({.max_draft_length = 3, .max_paths = 2})) {
    EXPECT_LE(arm.shape.length, 3);
    EXPECT_LE(arm.shape.leaves(), 2);
  }
  bool has_two_sequences = false;
  for (const Arm& arm : ServedArms({.max_draft_tokens = 9})) {
    EXPECT_LE(arm.shape.total_draws(), 9) << arm.name;
    has_two_sequences = has_two_sequences || arm.shape.leaves() == 2;
  }
  EXPECT_TRUE(has_two_sequences);
  const PlannerOptions no_local{.local = {.lookup = {.max_tokens = 0}, .suffix_max_tokens = 0}};
  for (const Arm& arm : ServedArms(no_local)) {
    EXPECT_TRUE(arm.plain() || arm.proposer.kind == Proposer::Kind::kModel) << arm.name;
  }
}

TEST_F(PlannerTest, PlansWhatTheRequestLeavesOpen) {
  const GenerationRequest open{.prompt = {1}};
  EXPECT_NE(Open("adaptive", open), nullptr);
  GenerationRequest request = open;
  request.speculation.enabled = false;
  EXPECT_EQ(Open("adaptive", request), nullptr);
  request = open;
  request.speculation.draft_length = 3;
  EXPECT_EQ(Open("adaptive", request), nullptr);
  request = open;
  request.speculation.tree = {2, 2};
  EXPECT_EQ(Open("adaptive", request), nullptr);
}

// Arms learned from a request with the same seed, and drafts from its text, would know the random
// numbers. Without a planner a request does not use the store either.
TEST_F(PlannerTest, PlansOnlySeedStableRequests) {
  GenerationRequest request{.prompt = {1}, .seed = 7};
  EXPECT_NE(Open("adaptive", request), nullptr) << "gumbel is the rule then";
  request.speculation.rule = Rule::kBlock;
  EXPECT_EQ(Open("adaptive", request), nullptr);
  request.sampling.temperature = 0;
  EXPECT_NE(Open("adaptive", request), nullptr);
}

TEST_F(PlannerTest, DraftsAtOnceWithMeasuredRows) {
  EXPECT_EQ(Open("adaptive")->Choose(kRoomy, 0).shape.length, 0);
  EXPECT_GT(OpenTimed()->Choose(kRoomy, 0).shape.length, 0);
}

TEST_F(PlannerTest, GivesADrafterItsShape) {
  const auto session = Open("fixed:draft-4x2");
  const NextRound next = session->Choose(kRoomy, 0);
  EXPECT_EQ(next.shape, Sequences(4, 2));
  EXPECT_EQ(next.rule, Rule::kMultiPathBlock);
  EXPECT_TRUE(next.draft.empty());
  EXPECT_TRUE(session->pending());
  session->Conclude({.accepted = 1, .drafted = 2, .emitted = 2, .seconds = 0.01});
  EXPECT_FALSE(session->pending());
  Summary summary;
  session->Summarize(&summary);
  EXPECT_THAT(summary.arm_rounds, ElementsAre(std::pair<std::string, int>("draft-4x2", 1)));
}

TEST_F(PlannerTest, DecodesPlainlyIfArmExceedsLimits) {
  const auto choose = [this](const std::string& arm, const Situation& situation,
                             const GenerationRequest& request) {
    const NextRound next = Open("fixed:" + arm, request)->Choose(situation, 0);
    EXPECT_TRUE(next.draft.empty());
    return next.shape.length;
  };
  const GenerationRequest any{.prompt = {1}};
  EXPECT_EQ(choose("draft-1x4", kRoomy, any), 4);
  EXPECT_EQ(choose("draft-1x4", {.remaining = 100, .room = 64}, any), 0) << "no drafter";
  EXPECT_EQ(choose("draft-1x4", {.remaining = 100, .room = 3, .drafter = kNear}, any), 0);
  EXPECT_EQ(choose("draft-1x4", {.remaining = 4, .room = 64, .drafter = kNear}, any), 0);
  EXPECT_EQ(choose("draft-1x4", {.remaining = 5, .room = 64, .drafter = kNear}, any), 4);
  EXPECT_EQ(choose("draft-2x4", {.remaining = 100, .room = 7, .drafter = kNear}, any), 0);
  GenerationRequest block = any;
  block.speculation.rule = Rule::kBlock;
  EXPECT_EQ(choose("draft-2x4", kRoomy, block), 0) << "the rule verifies one sequence";
  block.speculation.rule = Rule::kSpecTr;
  EXPECT_EQ(choose("draft-2x4", kRoomy, block), 4);
}

TEST_F(PlannerTest, HeadArmNeedsDraftersHead) {
  const auto choose = [this](const std::string& arm, bool head, const GenerationRequest& request) {
    Situation situation = kRoomy;
    situation.drafter->acceptance_head = head;
    return Open("fixed:" + arm, request)->Choose(situation, 0);
  };
  const GenerationRequest any{.prompt = {1}};
  const NextRound by_head = choose("draft-head-8", true, any);
  EXPECT_EQ(by_head.shape, Sequences(1, 8));
  EXPECT_EQ(by_head.stop, (StopRule{.kind = StopRule::Kind::kHead, .threshold = 0}));
  EXPECT_EQ(choose("draft-head-8", false, any).shape.length, 0) << "the drafter has no head";
  EXPECT_EQ(choose("draft-1x4", true, any).stop, StopRule{});

  GenerationRequest own = any;
  own.speculation.stop = StopRule{.kind = StopRule::Kind::kEntropy, .threshold = 1.f};
  EXPECT_EQ(choose("draft-head-8", true, own).shape.length, 0) << "the request names its own";
  EXPECT_EQ(choose("draft-1x4", true, own).stop, *own.speculation.stop);
  own.speculation.stop = StopRule{};
  EXPECT_EQ(choose("draft-head-8", true, own).shape.length, 0) << "also if it is none";
}

// A policy that tries each arm once starts over with another model.
TEST_F(PlannerTest, LearnsEachDraftModelSeparately) {
  const auto session = Open("ucbspec");
  const auto choose = [&](std::string_view model) {
    Situation situation = kRoomy;
    situation.drafter->model = model;
    const NextRound next = session->Choose(situation, 0);
    session->Conclude({.accepted = 0, .drafted = next.shape.length, .emitted = 1, .seconds = 0.01});
    return std::pair(next.shape.branching, next.shape.length);
  };
  const auto first = choose("a");
  const auto second = choose("a");
  EXPECT_NE(first, second);
  EXPECT_EQ(choose("b"), first);
  EXPECT_EQ(choose("b"), second);
}

// Otherwise a drafter known only from these rounds would never be used.
TEST_F(PlannerTest, MeasuresNewAndLongSilentDrafters) {
  const auto session = Open("adaptive");
  const auto drafts_in = [&](int rounds, double seconds) {
    int drafts = 0;
    for (int round = 0; round < rounds; ++round) {
      const double drafting = 50 * seconds;  // far too slow
      drafts += PlayRound(session.get(), seconds, drafting) > 0 ? 1 : 0;
    }
    return drafts;
  };
  EXPECT_EQ(drafts_in(8, 0.01), 0) << "nothing is known of the verifier either";
  EXPECT_EQ(drafts_in(50, 0.01), 3);
  EXPECT_EQ(drafts_in(1900, 0.01), 0);
  EXPECT_EQ(drafts_in(100, 0.01), 3) << "20 s of steps later";
  EXPECT_EQ(drafts_in(3900, 0.005), 0);
  EXPECT_EQ(drafts_in(200, 0.005), 3) << "however many they are";
}

// A draft of a plan that repeats the last one may come early, and shows nothing of its time.
TEST_F(PlannerTest, ProbesDoNotRepeatEachOther) {
  const auto session = Open("adaptive");
  std::vector<int> lengths;
  for (int round = 0; round < 20; ++round) {
    const int length = PlayRound(session.get(), /*step=*/0.01, /*drafting=*/0.5);
    if (length > 0) lengths.push_back(length);
  }
  EXPECT_THAT(lengths, ElementsAre(1, 2, 3));
}

TEST_F(PlannerTest, ProbesDifferWhereRoomIsShort) {
  const auto session = OpenTimed();
  std::vector<int> lengths;
  for (int round = 0; round < 3; ++round) {
    lengths.push_back(
        session->Choose({.remaining = 100, .room = 2, .drafter = DraftTiming{}}, 0).shape.length);
    session->Conclude({.drafted = lengths.back(), .emitted = 1, .seconds = 1e-3});
  }
  EXPECT_THAT(lengths, ElementsAre(1, 2, 1));
}

// A drafter that only seemed slow, as one that has just started may, is measured again once that
// costs no more than a hundredth of the time. A probe delays one of the sessions.
TEST_F(PlannerTest, MeasuresSlowDrafterAgainSoon) {
  const auto rounds_to_a_draft = [&](SessionPlanner* session, int most) {
    for (int rounds = 1; rounds <= most; ++rounds) {
      if (PlayRound(session, /*step=*/0.001, /*drafting=*/0.02) > 0) return rounds;
    }
    return most;
  };
  for (const int others : {0, 4}) {
    const auto session = Open("adaptive");
    std::vector<std::unique_ptr<SessionPlanner>> waiting;
    for (int i = 0; i < others; ++i) {
      waiting.push_back(OpenAnother());
      waiting.back()->Choose({.remaining = 100, .room = 64}, 0);
    }
    EXPECT_EQ(rounds_to_a_draft(session.get(), 100), 9)
        << "nothing is known of the verifier before";
    for (int probe = 1; probe < 3; ++probe) EXPECT_EQ(rounds_to_a_draft(session.get(), 100), 1);
    // Probes of 20, 40 and 60 ms: 12 seconds of one session.
    const int rounds = rounds_to_a_draft(session.get(), 19000);
    EXPECT_GT(rounds, 10000 / (1 + others)) << others;
    EXPECT_LT(rounds, 15000 / (1 + others)) << others;
  }
}

// 1 - R (t_d + t_v) / a^2, where a row costs 1 ms.
TEST_F(PlannerTest, HeadThresholdWeighsTimeAgainstAcceptance) {
  const auto session = Open("adaptive");
  for (int step = 0; step < 400; ++step) {
    const int rows = 1 + step % 16;
    OnStep(rows, 0.010 + 0.001 * rows);
  }
  EXPECT_NEAR(planner_->HeadThreshold(100, 0.001, 0.8), 1 - 100 * 0.002 / 0.64, 0.03);
  EXPECT_NEAR(planner_->HeadThreshold(100, 0.004, 1.0), 0.5, 0.03);
  EXPECT_NEAR(planner_->HeadThreshold(1000, 0.01, 0.5), 0.05, 1e-6) << "not worth a token";
}

// A row costs each of the sessions that share its step, from the moment that they begin.
TEST_F(PlannerTest, HeadThresholdFollowsLoadAtOnce) {
  auto first = Open("adaptive");
  for (int step = 0; step < 400; ++step) {
    first->Choose({.remaining = 100, .room = 64}, 0);
    const int rows = 1 + step % 16;
    OnStep(rows, 0.010 + 0.001 * rows);
    first->Conclude({.emitted = 1, .seconds = 0.02});
  }
  std::vector<std::unique_ptr<SessionPlanner>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(OpenAnother());
    others.back()->Choose({.remaining = 100, .room = 64}, 0);
  }
  EXPECT_NEAR(planner_->HeadThreshold(100, 0.001, 1.0), 1 - 100 * 0.005, 0.05);
  others.clear();
  EXPECT_NEAR(planner_->HeadThreshold(100, 0.001, 1.0), 1 - 100 * 0.002, 0.05);
}

// Each waits for the steps of the others.
TEST_F(PlannerTest, HeadThresholdCountsSessionsThatWait) {
  std::vector<std::unique_ptr<SessionPlanner>> sessions;
  sessions.push_back(Open("adaptive"));
  while (sessions.size() < 8) sessions.push_back(OpenAnother());
  for (const auto& session : sessions) session->Choose({.remaining = 100, .room = 64}, 0);
  for (int step = 0; step < 400; ++step) {
    const size_t begin = step % 2 == 0 ? 0 : 2, end = step % 2 == 0 ? 2 : 8;
    const int rows = static_cast<int>(end - begin) + step % 16;
    planner_->OnStep({.sessions = static_cast<int>(end - begin),
                      .planned = static_cast<int>(end - begin),
                      .rows = rows,
                      .seconds = 0.010 + 0.001 * rows});
    for (size_t i = begin; i < end; ++i) {
      sessions[i]->Conclude({.emitted = 1, .seconds = 0.02});
      sessions[i]->Choose({.remaining = 100, .room = 64}, 0);
    }
  }
  EXPECT_NEAR(planner_->HeadThreshold(100, 0.001, 1.0), 1 - 100 * 0.009, 0.05);
}

// Four in five rounds wait for another session's prompt, which takes far longer than they do.
TEST_F(PlannerTest, OthersPromptsAreNotCounted) {
  const auto session = Open("adaptive");
  int drafts = 0;
  for (int round = 0; round < 600; ++round) {
    const NextRound next = session->Choose(kRoomy, 0);
    const int length = next.shape.length;
    if (round >= 300) drafts += length > 0 ? 1 : 0;
    const int prompt = length > 0 && round % 5 > 0 ? 100 : 0;
    const double seconds = 0.010 + 1e-5 * (1 + length) + 1e-3 * prompt;
    planner_->OnStep({.sessions = prompt > 0 ? 2 : 1,
                      .planned = 1,
                      .rows = 1 + length + prompt,
                      .prompt_rows = prompt,
                      .seconds = seconds});
    session->Conclude(
        {.accepted = length, .drafted = length, .emitted = length + 1, .seconds = seconds});
  }
  EXPECT_GT(drafts, 200);
}

// While drafts that never pay are under way, prompts are read that delay nothing.
TEST_F(PlannerTest, PromptsBesideDraftsDelayNothing) {
  const auto session = Open("adaptive");
  int drafts = 0;
  for (int round = 0; round < 600; ++round) {
    const int length = session->Choose(kUnknown, 0).shape.length;
    if (round >= 300) drafts += length > 0 ? 1 : 0;
    if (length > 0) {
      planner_->OnStep({.sessions = 1, .rows = 40, .prompt_rows = 40, .seconds = 0.050});
      session->OnDraftComplete(0);
      session->OnDrafted(DraftOf(length), 0.050, 0.001);
    }
    const double step = 0.010 + 0.001 * (1 + length);
    OnStep(1 + length, step);
    session->Conclude({.accepted = 0,
                       .drafted = length,
                       .emitted = 1,
                       .seconds = step + (length > 0 ? 0.050 : 0)});
  }
  EXPECT_LT(drafts, 30);
}

TEST_F(PlannerTest, DraftsFromTextAfterPrefill) {
  const std::vector<TokenId> text = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3};
  for (const std::string arm : {"lookup-4", "suffix-4"}) {
    const auto session = Open("fixed:" + arm);
    session->Read(std::span(text).first(10));
    EXPECT_TRUE(session->Choose(kRoomy, text.size()).draft.empty()) << "a token is missing";
    session->Conclude({.emitted = 1, .seconds = 0.01});
    session->Read(std::span(text).last(1));
    const NextRound next = session->Choose(kRoomy, text.size());
    EXPECT_EQ(next.shape.length, 0);
    ASSERT_GE(next.draft.size(), 3) << arm;
    EXPECT_EQ(next.draft.Path(3), (std::vector<TokenId>{4, 5, 6}));
    EXPECT_EQ(next.draft.distribution(0).ids, std::vector<TokenId>{4}) << "a point mass";
    session->Conclude(
        {.accepted = 3, .drafted = next.draft.max_depth(), .emitted = 4, .seconds = 0.01});
    EXPECT_LE(session->Choose({.remaining = 3, .room = 64}, text.size()).draft.size(), 2);
  }
}

TEST_F(PlannerTest, LongMatchIsAnotherArm) {
  std::vector<TokenId> text;
  for (TokenId id = 10; id < 30; ++id) text.push_back(id);
  for (TokenId id = 10; id < 20; ++id) text.push_back(id);
  const auto weak = Open("fixed:suffix-4");
  weak->Read(text);
  EXPECT_TRUE(weak->Choose(kRoomy, text.size()).draft.empty());
  const auto strong = Open("fixed:suffix-strong-4");
  strong->Read(text);
  EXPECT_EQ(strong->Choose(kRoomy, text.size()).draft.Path(4),
            (std::vector<TokenId>{20, 21, 22, 23}));
}

TEST_F(PlannerTest, DraftsFromFinishedTextsInStore) {
  PlannerOptions options = WithPolicy("fixed:suffix-strong-8");
  options.store.max_tokens = 4096;
  planner_.emplace(options, nullptr);
  std::vector<TokenId> text;
  for (TokenId id = 10; id < 40; ++id) text.push_back(id);
  const auto draft = [&](const std::string& client) {
    const GenerationRequest request{.prompt = {1}, .client = client};
    const auto session =
        planner_->Open(request, ResolveSpeculation(request, {.draft_length = 4}, kLimits));
    session->Read(std::span(text).first(10));
    return session->Choose(kRoomy, 10).draft.size();
  };
  EXPECT_EQ(draft("a"), 0);
  {
    const GenerationRequest request{.prompt = {1}, .client = "a"};
    planner_->Open(request, ResolveSpeculation(request, {.draft_length = 4}, kLimits))
        ->Finish(text);
  }
  EXPECT_GT(draft("a"), 0);
  EXPECT_EQ(draft("b"), 0) << "another client's";
}

}  // namespace
}  // namespace outrider
