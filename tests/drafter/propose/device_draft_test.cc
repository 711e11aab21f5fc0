// The drafting loop over a model whose device reads from rows what is drafted from: against the
// loop whose rows come to the host, and what crosses.
#include <gmock/gmock.h>

#include <limits>
#include <string>

#include "common/backend/draft_batch.h"
#include "tests/drafter/propose/loop_fixture.h"

namespace outrider {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class Counts final : public DraftObserver {
 public:
  void OnStep(const StepReport& report) override {
    rows += report.device_rows;
    bytes += report.device_bytes;
  }
  void OnLoad(const DrafterLoad& /*load*/) override {}
  void OnDraftSent(int /*depth*/, double /*seconds*/) override {}
  void OnVerdictAhead(bool /*hit*/) override {}
  void OnHead(float /*bias*/, float /*threshold*/) override {}

  int64_t rows = 0, bytes = 0;
};

class DeviceDraftTest : public LoopTest {
 protected:
  void Begin(bool on_device, DraftLoopOptions options = {}, FakeModelOptions model = {}) {
    loop_.reset();
    counts_ = {};
    model_ = std::make_unique<FakeModel>(model);
    if (on_device) testing::GiveDevice(*model_);
    loop_ = std::make_unique<DraftLoop>(model_.get(), options, &clock_, &counts_);
    link_ = Connect(kConnection, 27);
  }

  Counts counts_;
};

// All kinds of drafts, all that they are sampled and stopped by.
std::vector<OpenEvent> ManySessions() {
  const DraftShape shapes[] = {{.length = 5, .branching = {}},
                               {.length = 3, .branching = {3, 2}},
                               {.length = 4, .branching = {2}}};
  std::vector<OpenEvent> sessions;
  for (int i = 0; i < 72; ++i) {
    OpenEvent open{.session = static_cast<uint64_t>(i),
                   .tokens = {i % 20, 3, i % 7, 3, 5},
                   .prompt_tokens = 3,
                   .sampling = {.temperature = 0.5f + 0.1f * static_cast<float>(i % 7)},
                   .seed = 100 + static_cast<uint64_t>(i),
                   .kind = static_cast<DraftKind>(i % 3),
                   .plan = {.round = 1, .shape = shapes[i / 3 % 3]}};
    if (i % 4 == 1) open.sampling.top_k = 1 + i % 9;
    if (i % 5 == 1) open.sampling.top_p = 0.8f;
    if (i % 7 == 1) open.sampling.min_p = 0.1f;
    if (i % 3 == i % 8) {
      open.sampling.repetition_penalty = 1.3f;
      open.sampling.frequency_penalty = 0.4f;
      open.sampling.presence_penalty = -0.2f;
    }
    if (i % 6 == 2) open.sampling.logit_bias = {{4, 1.f}, {9, -5.f}, {4, 0.5f}};
    if (i % 11 == 3) open.sampling.temperature = 0.f;
    if (i % 4 == 2) open.plan.stop = {.kind = StopRule::Kind::kConfidence, .threshold = 0.11f};
    if (i % 4 == 3) open.plan.stop = {.kind = StopRule::Kind::kEntropy, .threshold = 2.5f};
    if (i % 12 == 0) open.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 0.4f};
    sessions.push_back(open);
  }
  return sessions;
}

TEST_F(DeviceDraftTest, DraftsAreTheHosts) {
  for (const bool with_head : {false, true}) {
    std::vector<DraftTree> drafts[2];
    for (const bool on_device : {false, true}) {
      Begin(on_device, {.head = with_head ? &Head() : nullptr});
      for (const OpenEvent& session : ManySessions()) {
        Push(session);
        drafts[on_device].push_back(TheDraft());
        Push(CloseEvent{session.session});
      }
      StepToRest();
      ExpectEverythingBack();
      EXPECT_EQ(counts_.rows > 0, on_device);
    }
    int stopped = 0;
    for (size_t i = 0; i < drafts[0].size(); ++i) {
      SCOPED_TRACE("session " + std::to_string(i));
      ExpectSameDraft(drafts[1][i], drafts[0][i]);
      stopped += drafts[0][i].total_draws() < ManySessions()[i].plan.shape.total_draws();
    }
    EXPECT_GT(stopped, 5);
    EXPECT_LT(stopped, 50);
  }
}

TEST_F(DeviceDraftTest, BrokenRowsDraftTheSame) {
  for (const OpenEvent& session : ManySessions()) {
    std::vector<DraftTree> drafts;
    for (const bool on_device : {false, true}) {
      Begin(on_device);
      int rows = 0;
      model_->set_on_row([&](std::span<float> row) {
        const int kind = rows++ % 6;
        for (size_t i = 0; i < row.size(); ++i) {
          if (kind == 0 && i % 3 != 0) row[i] = kNan;
          if (kind == 1) row[i] = -kInf;
          if (kind == 2 && i % 5 == 1) row[i] = kInf;
          if (kind == 3) row[i] = kNan;
          if (kind == 4 && i != 7) row[i] = -kInf;
        }
      });
      Push(session);
      drafts.push_back(TheDraft());
    }
    SCOPED_TRACE("session " + std::to_string(session.session));
    ExpectSameDraft(drafts[1], drafts[0]);
  }
}

// The ends that are guessed at come from rows as well: the same passes in the same order.
TEST_F(DeviceDraftTest, WorksAheadOfTheSameEnds) {
  size_t passes = 0;
  for (const OpenEvent& session : ManySessions()) {
    std::vector<std::vector<TokenId>> fed[2];
    for (const bool on_device : {false, true}) {
      Begin(on_device, {.ahead_tokens = 24, .max_ahead_rows = 6});
      Push(session);
      (void)TheDraft();
      for (const auto& batch : model_->batches()) {
        for (const FakeModel::Share& share : batch) fed[on_device].push_back(share.tokens);
      }
    }
    EXPECT_EQ(fed[1], fed[0]) << "session " << session.session;
    passes += fed[0].size();
  }
  EXPECT_GT(passes, 15 * ManySessions().size());
}

TEST_F(DeviceDraftTest, NoRowOfLogitsCrosses) {
  Begin(true);
  // Sampled: 12 bytes a row and 8 an entry, of which there are no more than ids allowed.
  Push(Session(1, 6));
  (void)TheDraft();
  EXPECT_EQ(counts_.rows, 6);
  EXPECT_EQ(counts_.bytes, 6 * (12 + 8 * 27));
  EXPECT_EQ(model_->bytes_to_host(), counts_.bytes);
  // The argmax and one more.
  OpenEvent greedy = Session(2, 6);
  greedy.kind = DraftKind::kArgmax;
  Push(greedy);
  (void)TheDraft();
  EXPECT_EQ(counts_.bytes, 6 * (12 + 8 * 27) + 6 * (12 + 8 * 2));
  for (const auto& batch : model_->batches()) {
    for (const FakeModel::Share& share : batch) EXPECT_TRUE(share.draft);
  }
}

TEST_F(DeviceDraftTest, LawsKeepTheVerifiersEntries) {
  limits_ = {.mass = 1.f, .max_entries = 3};
  Begin(true);
  Push(Session(1, 6));
  const DraftTree draft = TheDraft();
  for (int node = 0; node < 6; ++node) EXPECT_EQ(draft.law(node).ids.size(), 3u);
  EXPECT_EQ(counts_.bytes, 6 * (12 + 8 * 3));
}

// A long prompt is read in parts, of which only the last one has a row.
TEST_F(DeviceDraftTest, PartsOfPromptsHaveNoRows) {
  Begin(true, {.max_chunk_tokens = 4});
  Push(Session(1, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  Push(Session(2, 3, {1, 2, 3}));
  StepToRest();
  EXPECT_EQ(counts_.rows, 2 + 3);
}

TEST_F(DeviceDraftTest, AFailedPassReadsNothing) {
  Begin(true);
  model_->FailNextForward(Internal("lost"));
  Push(Session(1, 3));
  StepToRest();
  EXPECT_EQ(counts_.rows, 0);
  Push(Session(2, 3));
  StepToRest();
  EXPECT_EQ(counts_.rows, 3);
}

}  // namespace
}  // namespace outrider
