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
  void Send(Chunk chunk) override {
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
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
  }

  std::vector<Chunk> chunks;
  std::vector<TokenId> tokens;
  std::string text;
  bool ended = false;
  Summary summary;
  Status status;
};

}  // namespace outrider::testing
