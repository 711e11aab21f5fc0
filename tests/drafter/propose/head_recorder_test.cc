// What the drafting loop records for training a head, and that recording changes no draft.
#include "drafter/propose/head_recorder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <random>

#include "tests/drafter/propose/loop_fixture.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

constexpr StopRule kForTraining{.kind = StopRule::Kind::kHead, .threshold = 1.f};
constexpr uint64_t kModel = 42;
constexpr int kWidth = 4;

class HeadRecorderTest : public LoopTest {
 protected:
  void StartRecording(DraftLoopOptions options = {}, uint64_t max_examples = 100000) {
    loop_.reset();
    recorder_.reset();
    auto writer = HeadDataWriter::Open(path_, kWidth, kModel);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    recorder_ = std::make_unique<HeadRecorder>(std::move(writer).value(), max_examples);
    options.recorder = recorder_.get();
    Start({}, options);
  }

  // The recorded data; ends the loop.
  HeadData Recorded() {
    loop_.reset();
    recorder_.reset();
    Result<HeadData> data = ReadHeadData(path_, std::numeric_limits<uint64_t>::max());
    if (!data.ok()) {
      EXPECT_EQ(data.status().code(), Code::kFailedPrecondition);
    }
    return data.ok() ? std::move(data).value() : HeadData{};
  }

  static SessionOpening Trained(uint64_t id, DraftShape shape) {
    SessionOpening session = Opening(id, std::move(shape));
    session.plan.stop = kForTraining;
    return session;
  }

  // Sends the verdict that accepts node `node`, continues with `next` and gives node i the
  // acceptance probability label(i) of 255, for `labelled` nodes; updates `session`.
  void Decide(SessionOpening& session, const DraftTree& draft, int node, TokenId next,
              int labelled) {
    std::string acceptance;
    for (int i = 1; i <= labelled; ++i) acceptance += static_cast<char>(Label(session, i));
    const DraftPlan plan{
        .round = session.plan.round + 1, .shape = session.plan.shape, .stop = session.plan.stop};
    Push(SessionVerdict{.session = session.session,
                        .round = session.plan.round,
                        .node = node,
                        .next = {next},
                        .plan = plan,
                        .acceptance = acceptance});
    const std::vector<TokenId> path = draft.Path(node);
    session.tokens.insert(session.tokens.end(), path.begin(), path.end());
    session.tokens.push_back(next);
    session.plan = plan;
  }
  static uint8_t Label(const SessionOpening& session, int node) {
    return static_cast<uint8_t>(session.plan.round * 37 + static_cast<uint32_t>(node) * 11);
  }

  // The definition: the state of every node with children, with its label.
  void Expect(const SessionOpening& session, const DraftTree& draft, int labelled) {
    for (int node = 1; node <= labelled; ++node) {
      if (draft.draws(node).empty()) continue;
      std::vector<TokenId> path = session.tokens;
      for (const TokenId token : draft.Path(node)) path.push_back(token);
      const std::vector<float> row = model_->Logits(path);
      std::vector<float> example = {static_cast<float>(Label(session, node)) / 255.f};
      example.insert(example.end(), row.begin(), row.begin() + kWidth);
      ++expected_[example];
    }
  }
  void ExpectRecorded(const HeadData& data) {
    std::map<std::vector<float>, int> recorded;
    for (size_t i = 0; i < data.size(); ++i) {
      std::vector<float> example = {data.labels[i]};
      const auto hidden = data.hidden.begin() + static_cast<std::ptrdiff_t>(i * kWidth);
      example.insert(example.end(), hidden, hidden + kWidth);
      ++recorded[example];
    }
    EXPECT_EQ(recorded, expected_);
  }

  const testing::TempDir dir_;
  const std::string path_ = dir_ / "data";
  std::unique_ptr<HeadRecorder> recorder_;
  std::map<std::vector<float>, int> expected_;
};

// Chains and trees, verdicts anywhere that score a part of the draft or all of it, with and without
// lookahead drafting, with and without a head in use: drafts equal the definition, and so do the
// examples.
TEST_F(HeadRecorderTest, ExamplesMatchOracle) {
  std::mt19937 random(20261121);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  const DraftShape shapes[] = {
      Sequences(1, 5), Sequences(3, 3), {.length = 3, .branching = {2, 2}}, Sequences(1, 2)};
  for (const bool ahead : {false, true}) {
    for (const bool with_head : {false, true}) {
      expected_.clear();
      std::filesystem::remove(path_);
      StartRecording({.ahead_tokens = ahead ? 64 : 0,
                      .max_ahead_rows = 16,
                      .head = with_head ? &Head() : nullptr});
      for (uint64_t id = 1; id <= 20; ++id) {
        SessionOpening session = Trained(id, shapes[id % 4]);
        Push(session);
        for (int round = 0; round < 6; ++round) {
          const DraftTree draft = TheDraft();
          ExpectSameDraft(draft, Oracle(session));
          ASSERT_FALSE(HasFailure());
          const int labelled = below(draft.size() + 1);
          Expect(session, draft, labelled);
          // Likely ends, so that drafts made ahead are used.
          const int node = below(draft.size() + 1);
          std::vector<TokenId> path = session.tokens;
          for (const TokenId token : draft.Path(node)) path.push_back(token);
          std::vector<float> row = model_->Logits(path);
          for (const int32_t child : draft.draws(node)) {
            row[static_cast<size_t>(draft.token(child))] = -1e9f;
          }
          const auto next = std::max_element(row.begin(), row.end()) - row.begin();
          Decide(session, draft, node, static_cast<TokenId>(next), labelled);
        }
        Push(CloseEvent{id});
        StepToRest();
        TakeDrafts();
      }
      const HeadData data = Recorded();
      EXPECT_GT(data.size(), 100u);
      EXPECT_EQ(data.header.model, kModel);
      EXPECT_EQ(data.header.transforms,
                (HeadTransforms{.sampling = {}, .distribution_limits = limits_}));
      ExpectRecorded(data);
    }
  }
}

TEST_F(HeadRecorderTest, ExamplesNameTheirPrompt) {
  StartRecording();
  std::map<uint64_t, int> prompts;
  for (const TokenId first : {3, 4, 3}) {
    SessionOpening session = Trained(1, Sequences(1, 3));
    session.tokens = {first, 1, 4, 1, 5};
    session.prompt_tokens = 2;  // the rest was written before the drafter joined
    Push(session);
    Decide(session, TheDraft(), 0, 9, 3);
    StepToRest();
    TakeDrafts();
    const std::vector<TokenId> prompt = {first, 1};
    prompts[PromptId(prompt)] += 2;
  }
  std::map<uint64_t, int> recorded;
  for (const uint64_t prompt : Recorded().prompts) ++recorded[prompt];
  EXPECT_EQ(recorded, prompts);
}

TEST_F(HeadRecorderTest, RecordsOnlySuitableRounds) {
  StartRecording();
  std::vector<SessionOpening> sessions(6, Trained(1, Sequences(1, 4)));
  sessions[1].plan.stop.threshold = 0.999f;               // a stop rule decides
  sessions[2].plan.stop = {};                             // verdicts carry no labels
  sessions[3].kind = DraftKind::kRace;                    // no distribution
  sessions[4].sampling.temperature = 0.5f;                // needs another head
  sessions[5].sampling.logit_bias = {{TokenId{3}, 1.f}};  // cannot be described in a header
  for (const SessionOpening& session : sessions) {
    SessionOpening open = session;
    Push(open);
    Decide(open, TheDraft(), 1, 9, 4);
    StepToRest();
    TakeDrafts();
  }
  EXPECT_EQ(Recorded().size(), 3u);  // only of the first session
}

TEST_F(HeadRecorderTest, SkipsNonFiniteStates) {
  StartRecording();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF, 0.5f}) {
    recorder_->Takes({.sampling = {}, .distribution_limits = limits_});
    recorder_->Add({{.prompt = 1, .label = 0.5f, .hidden = {1, 2, bad, 4}}});
  }
  const HeadData data = Recorded();
  ASSERT_EQ(data.size(), 1u);
  EXPECT_EQ(data.hidden[2], 0.5f);
}

TEST_F(HeadRecorderTest, KeepsItsBoundAcrossRestarts) {
  for (const uint64_t bound : {5u, 5u, 7u}) {
    StartRecording({}, bound);
    SessionOpening session = Trained(1, Sequences(1, 4));
    Push(session);
    for (int round = 0; round < 4; ++round) Decide(session, TheDraft(), 0, 9, 4);
    StepToRest();
    EXPECT_EQ(Recorded().size(), bound);
  }
}

}  // namespace
}  // namespace outrider
