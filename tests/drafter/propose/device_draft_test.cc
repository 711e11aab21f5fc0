// The drafting loop over a model whose device picks from logits, compared with the loop whose
// logits are copied to the host, and the amount of data copied.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/pick_batch.h"
#include "tests/drafter/propose/loop_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class Counts final : public DraftObserver {
 public:
  void OnStep(const StepReport& report) override {
    rows += report.device_rows;
    bytes += report.device_bytes;
    reports.push_back(report);
  }

  int64_t rows = 0, bytes = 0;
  std::vector<StepReport> reports;
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

  // The passes so far: the depth for passes of chains, -1 for others.
  std::vector<int> Passes() const {
    std::vector<int> passes;
    for (const auto& batch : model_->batches()) {
      passes.push_back(batch[0].chain_depth);
      for (const FakeModel::Share& share : batch) {
        EXPECT_EQ(share.chain_depth, batch[0].chain_depth);
      }
    }
    return passes;
  }
  size_t TokensSent() {
    size_t tokens = 0;
    for (const DraftPart& draft : link_->TakeDrafts()) tokens += draft.chunk.tokens.size();
    return tokens;
  }

  Counts counts_;
};

// Sessions of all draft kinds, with all kinds of sampling and stop rules.
std::vector<SessionOpening> ManySessions() {
  const DraftShape shapes[] = {{.length = 5, .branching = {}},
                               {.length = 3, .branching = {3, 2}},
                               {.length = 4, .branching = {2}}};
  std::vector<SessionOpening> sessions;
  for (int i = 0; i < 72; ++i) {
    SessionOpening open{.session = static_cast<uint64_t>(i),
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
      for (const SessionOpening& session : ManySessions()) {
        Push(session);
        drafts[on_device].push_back(TheDraft());
        Push(CloseEvent{session.session});
      }
      StepToRest();
      ExpectEverythingBack();
      EXPECT_EQ(counts_.rows > 0, on_device);
      const std::vector<int> passes = Passes();
      EXPECT_EQ(std::count(passes.begin(), passes.end(), 3) > 3, on_device);
      EXPECT_GT(std::count(passes.begin(), passes.end(), -1), 100);
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
  for (const SessionOpening& session : ManySessions()) {
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

// The predicted round ends are picked from rows as well: the same passes in the same order.
TEST_F(DeviceDraftTest, WorksAheadOfTheSameEnds) {
  size_t passes = 0;
  for (const SessionOpening& session : ManySessions()) {
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
  EXPECT_GT(passes, 14 * ManySessions().size());
}

TEST_F(DeviceDraftTest, NoRowOfLogitsCrosses) {
  Begin(true);
  // Sampled: 16 bytes per row and 8 per entry, with at most as many entries as allowed ids.
  Push(Opening(1, 6));
  (void)TheDraft();
  EXPECT_EQ(counts_.rows, 6);
  EXPECT_EQ(counts_.bytes, 6 * (16 + 8 * 27));
  EXPECT_EQ(model_->device()->bytes_to_host(), counts_.bytes);
  // The argmax and one more.
  SessionOpening greedy = Opening(2, 6);
  greedy.kind = DraftKind::kArgmax;
  Push(greedy);
  (void)TheDraft();
  EXPECT_EQ(counts_.bytes, 6 * (16 + 8 * 27) + 6 * (16 + 8 * 2));
  for (const auto& batch : model_->batches()) {
    for (const FakeModel::Share& share : batch) EXPECT_FALSE(share.logits_to_host);
  }
}

TEST_F(DeviceDraftTest, DistributionsKeepTheVerifiersEntries) {
  limits_ = {.mass = 1.f, .max_entries = 3};
  Begin(true);
  Push(Opening(1, 6));
  const DraftTree draft = TheDraft();
  for (int node = 0; node < 6; ++node) EXPECT_EQ(draft.distribution(node).ids.size(), 3u);
  EXPECT_EQ(counts_.bytes, 6 * (16 + 8 * 3));
}

// As many depths are run in one go as are sent together.
TEST_F(DeviceDraftTest, ChainsRunToTheNextPart) {
  Begin(true);
  Push(Opening(1, 9));
  for (const size_t tokens : {4, 4, 1}) {
    EXPECT_TRUE(loop_->Step());
    EXPECT_EQ(TokensSent(), tokens);
  }
  EXPECT_FALSE(loop_->Step());
  EXPECT_THAT(Passes(), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, -1));
}

TEST_F(DeviceDraftTest, EachPassIsReported) {
  Begin(true);
  model_->set_graph_counts({.launches = 5, .captures = 2});
  Push(Opening(1, 4, {1, 2, 3}));
  Push(Opening(2, 4, {4, 5}));
  StepToRest();
  ASSERT_EQ(counts_.reports.size(), 4u);
  for (const StepReport& report : counts_.reports) {
    const bool first = &report == &counts_.reports[0];
    EXPECT_EQ(report.sessions, 2);
    EXPECT_EQ(report.rows, first ? 5 : 2);
    EXPECT_EQ(report.drafted_tokens, 2);
    EXPECT_EQ(report.device_rows, 2);
    EXPECT_EQ(report.device_bytes, first ? 8 * (16 + 8 * 27) : 0);
    EXPECT_FALSE(report.ahead);
    EXPECT_EQ(report.graphs.launches, 5);
    EXPECT_EQ(report.graphs.captures, 2);
  }
}

// No part of a draft is delayed by another draft.
TEST_F(DeviceDraftTest, ChainsEndWithFirstDuePart) {
  Begin(true);
  Push(Opening(1, 2));
  Push(Opening(2, 7));
  loop_->Step();
  EXPECT_EQ(TokensSent(), 2u);
  EXPECT_THAT(Passes(), ElementsAre(0, 1));
  // The first draft's verdict may arrive at any time now, so depths are run one by one.
  loop_->Step();
  EXPECT_EQ(TokensSent(), 0u);
  loop_->Step();
  EXPECT_EQ(TokensSent(), 4u);
  EXPECT_THAT(Passes(), ElementsAre(0, 1, -1, -1));
  Push(CloseEvent{1});
  loop_->Step();
  EXPECT_EQ(TokensSent(), 3u);
  EXPECT_THAT(Passes(), ElementsAre(0, 1, -1, -1, 0, 1, 2));
}

TEST_F(DeviceDraftTest, SessionsJoinBetweenChains) {
  std::vector<DraftTree> drafts[2];
  for (const bool on_device : {false, true}) {
    Begin(on_device);
    for (uint64_t id = 0; id < 5; ++id) {
      SessionOpening open = Opening(id, 16, {1, 2, static_cast<TokenId>(id)});
      open.kind = static_cast<DraftKind>(id % 3);
      open.sampling.presence_penalty = 1.f;
      Push(open);
      loop_->Step();
    }
    StepToRest();
    std::map<uint64_t, std::vector<DraftPart>> parts;
    for (DraftPart& draft : link_->TakeDrafts()) parts[draft.session].push_back(std::move(draft));
    for (auto& [id, session_parts] : parts) {
      drafts[on_device].push_back(Assemble(std::move(session_parts)));
    }
  }
  ASSERT_EQ(drafts[1].size(), 5u);
  for (size_t i = 0; i < 5; ++i) ExpectSameDraft(drafts[1][i], drafts[0][i]);
  size_t widest = 0;
  for (const auto& batch : model_->batches()) {
    if (batch[0].chain_depth == 1) widest = std::max(widest, batch.size());
  }
  EXPECT_EQ(widest, 4u);
}

// Drafts that cannot be sampled without the host run depth by depth.
TEST_F(DeviceDraftTest, OnlyFixedLengthSequencesAreChains) {
  for (int kind = 0; kind < 5; ++kind) {
    limits_.max_entries = kind == 4 ? kMaxChainEntries + 1 : kMaxChainEntries;
    Begin(true, {.head = kind == 2 ? &Head() : nullptr});
    SessionOpening open = Opening(1, 4);
    if (kind == 0) open.plan.stop = {.kind = StopRule::Kind::kConfidence, .threshold = 0.001f};
    if (kind == 1) open.plan.stop = {.kind = StopRule::Kind::kEntropy, .threshold = 90.f};
    if (kind == 2) open.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 0.999f};
    if (kind == 3) open.plan.shape = Sequences(2, 4);
    Push(open);
    StepToRest();
    for (const int depth : Passes()) EXPECT_EQ(depth, -1) << kind;
  }
  // The head's stop rule without a head means a fixed length.
  limits_.max_entries = kMaxChainEntries;
  Begin(true);
  SessionOpening open = Opening(1, 4);
  open.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 0.4f};
  Push(open);
  StepToRest();
  EXPECT_THAT(Passes(), ElementsAre(0, 1, 2, 3));
}

// The pages of a plan are reserved before its first draft token is sampled, and it takes no more.
TEST_F(DeviceDraftTest, ChainsTakeReservedPages) {
  // 5 tokens and the 11 draft tokens that are run fill 4 pages.
  for (const int pages : {4, 3}) {
    Begin(true, {}, {.total_pages = pages});
    Push(Opening(1, 12));
    const DraftTree draft = TheDraft();
    EXPECT_EQ(draft.size(), pages == 4 ? 12 : 0);
    EXPECT_EQ(loop_->load().sessions, pages == 4 ? 1 : 0);
  }
}

TEST_F(DeviceDraftTest, FailedChainIsRefused) {
  Begin(true);
  Push(Opening(1, 8));
  Push(Opening(2, 8));
  loop_->Step();
  EXPECT_EQ(TokensSent(), 8u);
  model_->FailNextForward(Internal("lost"));
  loop_->Step();
  EXPECT_EQ(TokensSent(), 0u);
  ExpectEverythingBack();
}

// A device whose token at one depth is not the one that it reports.
class OtherTokens final : public FakeModel::DraftDevice {
 public:
  OtherTokens(std::shared_ptr<FakeModel::DraftDevice> device, int depth)
      : device_(std::move(device)), depth_(depth) {}

  std::span<const PickedRow> Draft(const PickBatch& batch, float* rows, int vocab) override {
    return device_->Draft(batch, rows, vocab);
  }
  void BeginChains(const PickBatch& batch, float* rows, int vocab) override {
    device_->BeginChains(batch, rows, vocab);
  }
  std::span<const TokenId> DrawChains(int depth) override {
    const std::span<const TokenId> drawn = device_->DrawChains(depth);
    drawn_.assign(drawn.begin(), drawn.end());
    if (depth == depth_) drawn_[0] = (drawn_[0] + 1) % 27;
    return drawn_;
  }
  std::span<const PickedRow> EndChains() override {
    const std::span<const PickedRow> picked = device_->EndChains();
    picked_.assign(picked.begin(), picked.end());
    PickedRow& other = picked_[static_cast<size_t>(depth_) * drawn_.size()];
    other.sampled = (other.sampled + 1) % 27;
    return picked_;
  }
  int64_t bytes_to_host() const override { return device_->bytes_to_host(); }

 private:
  const std::shared_ptr<FakeModel::DraftDevice> device_;
  const int depth_;
  std::vector<TokenId> drawn_;
  std::vector<PickedRow> picked_;
};

TEST_F(DeviceDraftTest, OnlyTheHostsDrawsCount) {
  for (const int depth : {0, 1, 3}) {
    std::vector<DraftTree> drafts[2];
    for (const bool on_device : {false, true}) {
      Begin(on_device);
      if (on_device) {
        model_->set_draft_device(std::make_shared<OtherTokens>(model_->draft_device(), depth));
      }
      Push(Opening(1, 4, {1, 2}));
      Push(Opening(2, 4, {3, 4}));
      StepToRest();
      std::map<uint64_t, std::vector<DraftPart>> parts;
      for (DraftPart& draft : link_->TakeDrafts()) parts[draft.session].push_back(std::move(draft));
      for (auto& [id, session_parts] : parts) {
        drafts[on_device].push_back(Assemble(std::move(session_parts)));
      }
    }
    ASSERT_EQ(drafts[1].size(), 2u);
    for (size_t i = 0; i < 2; ++i) ExpectSameDraft(drafts[1][i], drafts[0][i]);
  }
}

// A long prompt is processed in parts, of which only the last one has a logits row.
TEST_F(DeviceDraftTest, PartsOfPromptsHaveNoRows) {
  Begin(true, {.max_chunk_tokens = 4});
  Push(Opening(1, 2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  Push(Opening(2, 3, {1, 2, 3}));
  StepToRest();
  EXPECT_EQ(counts_.rows, 2 + 3);
}

TEST_F(DeviceDraftTest, FailedPassReadsNothing) {
  Begin(true);
  model_->FailNextForward(Internal("lost"));
  Push(Opening(1, 3));
  StepToRest();
  EXPECT_EQ(counts_.rows, 0);
  Push(Opening(2, 3));
  StepToRest();
  EXPECT_EQ(counts_.rows, 3);
}

}  // namespace
}  // namespace outrider
