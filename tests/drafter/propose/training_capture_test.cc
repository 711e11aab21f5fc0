#include "drafter/propose/training_capture.h"

#include <gmock/gmock.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/drafter/propose/parts_fixture.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

class TrainingCaptureTest : public PartsTest {
 protected:
  TrainingCaptureTest() {
    auto writer = HeadDataWriter::Open(path_, kWidth, /*model=*/42);
    EXPECT_TRUE(writer.ok());
    recorder_ = std::make_unique<HeadRecorder>(std::move(writer).value(), 1000);
    Build({.chunk_depths = 8});
  }

  static SessionOpening Trained(uint64_t id) {
    SessionOpening open = Opening(id, Sequences(1, 4));
    open.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 1.f};
    return open;
  }
  std::optional<uint64_t> Prompt(const SessionOpening& open, HeadRecorder* recorder) {
    const VerifierConnection& connection = Connect(1);
    Result<DraftSession> session = DraftSession::Create(open, &connection.bounds);
    EXPECT_TRUE(session.ok());
    return TrainingCapture(recorder, kWidth).PromptToRecord(open, *session, {});
  }

  static constexpr int kWidth = 4;
  const testing::TempDir dir_;
  const std::string path_ = dir_ / "data";
  std::unique_ptr<HeadRecorder> recorder_;
};

TEST_F(TrainingCaptureTest, RecordsSessionsThatAreForTraining) {
  const SessionOpening open = Trained(1);
  EXPECT_EQ(Prompt(open, recorder_.get()), PromptId(open.tokens));
  EXPECT_EQ(Prompt(open, nullptr), std::nullopt);
  EXPECT_EQ(Prompt(Opening(1, Sequences(1, 4)), recorder_.get()), std::nullopt);
  SessionOpening otherwise = open;
  otherwise.sampling.temperature = 0.5f;
  EXPECT_EQ(Prompt(otherwise, recorder_.get()), std::nullopt) << "the file is of another sampling";
}

TEST_F(TrainingCaptureTest, LabelsStatesOfComputedTokens) {
  const TrainingCapture capture(recorder_.get(), kWidth);
  const SessionOpening open = Trained(1);
  HeldSession& held = Hold(Connect(1), open);
  held.prompt = Prompt(open, recorder_.get());
  while (held.mirror->session.drafting()) RunPass();
  SessionVerdict verdict{.session = 1, .round = 2, .acceptance = "\x33\x66\x99\xcc"};
  capture.OnVerdict(held, verdict);  // for another round: ignored
  verdict.round = 1;
  capture.OnVerdict(held, verdict);
  recorder_.reset();  // flushes the file

  const Result<HeadData> data = ReadHeadData(path_, std::numeric_limits<uint64_t>::max());
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  // The last token was not continued, so its state was never computed.
  EXPECT_THAT(data->labels, ElementsAre(0.2f, 0.4f, 0.6f));
  std::vector<TokenId> path = open.tokens;
  path.push_back(held.mirror->session.draft().token(1));
  const std::vector<float> logits =
      model_->Logits(path);  // a FakeModel's states are its first logits
  EXPECT_EQ(std::vector(data->hidden.begin(), data->hidden.begin() + kWidth),
            std::vector(logits.begin(), logits.begin() + kWidth));
}

}  // namespace
}  // namespace outrider
