#include "verifier/engine/request_record.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/base/log.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

// The line that `run` logs; null if there is none.
template <class Run>
Json LineOf(const Run& run) {
  SetLogJson(true);
  ::testing::internal::CaptureStderr();
  run();
  SetLogJson(false);
  return Json::parse(::testing::internal::GetCapturedStderr(), nullptr, false);
}

GenerationRequest PromptOf(size_t tokens) {
  GenerationRequest request;
  request.prompt.assign(tokens, 7);
  return request;
}

Chunk ChunkOf(size_t tokens, int drafted, int accepted) {
  Chunk chunk;
  chunk.tokens.assign(tokens, 3);
  chunk.drafted = drafted;
  chunk.accepted = accepted;
  return chunk;
}

Summary SummaryOf(FinishReason reason) {
  Summary summary;
  summary.reason = reason;
  return summary;
}

TEST(RequestRecord, FinishedRequestIsOneLine) {
  const Json line = LineOf([] {
    const auto record = RequestRecord::Start(
        nullptr, std::nullopt, {.id = "r1", .route = "Generate", .client = "token:alice"});
    record->Describe(PromptOf(5), 5);
    record->Add(ChunkOf(1, 0, 0));
    record->Add(ChunkOf(3, 4, 2));
    record->Add(SummaryOf(FinishReason::kStop));
    record->Add(SummaryOf(FinishReason::kLength), /*new_prompt=*/false);
    record->Add(SummaryOf(FinishReason::kStop), /*new_prompt=*/false);
    record->End(Status());
    record->End(Internal("a second end is none"));
  });
  EXPECT_EQ(line["message"], "request finished");
  EXPECT_EQ(line["level"], "INFO");
  EXPECT_EQ(line["id"], "r1");
  EXPECT_EQ(line["route"], "Generate");
  EXPECT_EQ(line["client"], "token:alice");
  EXPECT_EQ(line["prompt_tokens"], 5);
  EXPECT_EQ(line["tokens"], 4);
  EXPECT_EQ(line["drafted"], 4);
  EXPECT_EQ(line["accepted"], 2);
  EXPECT_GE(line["seconds"].get<double>(), line["ttft_seconds"].get<double>());
  EXPECT_EQ(line["finish_reason"], "length,stop");
  EXPECT_FALSE(line.contains("error"));
  EXPECT_FALSE(line.contains("trace_id"));
}

TEST(RequestRecord, FailedRequestSaysWhy) {
  TraceContext context;
  context.trace.fill(0xab);
  const Json line = LineOf([&] {
    const auto record = RequestRecord::Start(nullptr, context, {.id = "r2", .route = "chat"});
    EXPECT_FALSE(record->is_traced());
    EXPECT_EQ(record->link()->context, context);
    record->Add(ChunkOf(2, 0, 0));
    record->End(Status(Code::kCancelled, "the client has gone"));
  });
  EXPECT_EQ(line["message"], "request failed");
  EXPECT_EQ(line["tokens"], 2);
  EXPECT_EQ(line["finish_reason"], "abort");
  EXPECT_EQ(line["error"], "CANCELLED: the client has gone");
  EXPECT_EQ(line["trace_id"], "abababababababababababababababab");
}

TEST(RequestRecord, RefusedRequestHasNoFirstToken) {
  const Json line = LineOf([&] {
    RequestRecord::Start(nullptr, std::nullopt, {.id = "r3"})->End(ResourceExhausted("full"));
  });
  EXPECT_EQ(line["finish_reason"], "error");
  EXPECT_FALSE(line.contains("ttft_seconds"));
  EXPECT_EQ(line["tokens"], 0);
}

TEST(RequestRecord, CutsLongClientKey) {
  const Json line = LineOf([&] {
    const auto record = RequestRecord::Start(nullptr, std::nullopt,
                                             {.id = "r4", .client = std::string(8000, '\x01')});
    record->Add(SummaryOf(FinishReason::kStop));
    record->End(Status());
  });
  EXPECT_EQ(line["client"].get<std::string>(), std::string(256, '\x01'));
  EXPECT_EQ(line["finish_reason"], "stop");
}

TEST(RequestRecord, RequestIdsAreShortAndVisible) {
  EXPECT_TRUE(IsRequestId("a-1"));
  EXPECT_TRUE(IsRequestId(std::string(128, 'x')));
  EXPECT_FALSE(IsRequestId(std::string(129, 'x')));
  EXPECT_FALSE(IsRequestId(""));
  EXPECT_FALSE(IsRequestId("a b"));
  EXPECT_FALSE(IsRequestId("a\n"));
  EXPECT_FALSE(IsRequestId("\xc3\xa9"));
}

}  // namespace
}  // namespace outrider
