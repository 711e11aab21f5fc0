#include "drafter/propose/draft_trace.h"

#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

#include "common/trace/file_exporter.h"
#include "tests/drafter/propose/parts_fixture.h"
#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DraftTracesTest : public PartsTest {
 protected:
  DraftTracesTest() {
    auto file = FileExporter::Open(
        {.path = path_, .max_bytes = 1 << 20, .resource = ResourceOf("drafter", "")});
    EXPECT_TRUE(file.ok());
    std::vector<std::unique_ptr<SpanExporter>> exporters;
    exporters.push_back(std::move(file).value());
    tracer_ = std::make_unique<Tracer>(1, std::move(exporters));
    traces_ = std::make_unique<DraftTraces>(tracer_.get());
    Build({}, {}, traces_.get());
  }
  static SessionOpening Traced(uint64_t id, const std::string& flags) {
    SessionOpening open = Opening(id, Sequences(1, 2));
    open.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-" + flags;
    return open;
  }
  void Open(VerifierConnection& connection, const SessionOpening& open) {
    parts_->observers.Notify(&DraftObserver::OnOpened, Hold(connection, open), open, clock_.Now());
  }
  std::string Written() {
    tracer_->Close();
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  const testing::TempDir dir_;
  const std::string path_ = dir_ / "spans";
  std::unique_ptr<Tracer> tracer_;
  std::unique_ptr<DraftTraces> traces_;
};

TEST_F(DraftTracesTest, SpanHoldsWhatTheSessionDrafted) {
  VerifierConnection& connection = Connect(1);
  Open(connection, Traced(77, "01"));
  RunPass();
  clock_.Advance(std::chrono::milliseconds(250));
  RunPass();
  HeldSession& held = connection.sessions.at(77);
  parts_->observers.Notify(&DraftObserver::OnVerdictAhead, held, true);
  parts_->sessions.Discard(connection, 77);
  const std::string text = Written();
  EXPECT_THAT(text, HasSubstr("0af7651916cd43dd8448eb211c80319c"));
  EXPECT_THAT(text, HasSubstr("b7ad6b7169203331"));
  for (const char* attribute : {R"("outrider.session","value":{"intValue":"77"})",
                                R"("outrider.tokens.read","value":{"intValue":"5"})",
                                R"("outrider.drafts","value":{"intValue":"1"})",
                                R"("outrider.tokens.drafted","value":{"intValue":"2"})",
                                R"("outrider.ahead.verdicts","value":{"intValue":"1"})",
                                R"("outrider.ahead.hits","value":{"intValue":"1"})",
                                R"("outrider.draft.seconds","value":{"doubleValue":0.25})"}) {
    EXPECT_THAT(text, HasSubstr(attribute));
  }
}

TEST_F(DraftTracesTest, RefusalIsTheSpansError) {
  VerifierConnection& connection = Connect(1);
  Open(connection, Traced(1, "01"));
  parts_->sessions.Refuse(connection, 1, 1, ResourceExhausted("no pages are left"));
  EXPECT_THAT(Written(), HasSubstr("no pages are left"));
}

TEST_F(DraftTracesTest, UntracedRequestsLeaveNothing) {
  VerifierConnection& connection = Connect(1);
  Open(connection, Traced(1, "00"));
  Open(connection, Opening(2, Sequences(1, 2)));
  RunPass();
  RunPass();
  parts_->sessions.Disconnect(1);
  EXPECT_THAT(Written(), Not(HasSubstr("outrider.session")));
}

}  // namespace
}  // namespace outrider
