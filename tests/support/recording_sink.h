// Records what a generation sends.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "verifier/engine/sink.h"

namespace outrider::testing {

class RecordingSink final : public GenerationSink {
 public:
  // `may_fail`: false if Fail() shall fail the test.
  explicit RecordingSink(bool may_fail = true) : may_fail_(may_fail) {}

  void Send(Chunk chunk) override {
    EXPECT_TRUE(chunk.logprobs.empty() || chunk.logprobs.size() == chunk.tokens.size());
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
    logprobs.insert(logprobs.end(), chunk.logprobs.begin(), chunk.logprobs.end());
    text += chunk.text;
    chunks.push_back(std::move(chunk));
  }
  void Finish(const Summary& s) override {
    ASSERT_FALSE(ended);
    ended = true;
    summary = s;
  }
  void Fail(const Status& s) override {
    ASSERT_FALSE(ended);
    ended = true;
    status = s;
    if (!may_fail_) ADD_FAILURE() << s.ToString();
  }

  std::vector<Chunk> chunks;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;
  std::string text;
  bool ended = false;
  Summary summary;
  Status status;

 private:
  const bool may_fail_;
};

}  // namespace outrider::testing
