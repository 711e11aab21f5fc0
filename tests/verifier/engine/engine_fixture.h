// An engine over a fake model, with a drafter and a clock that the test plays.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/puppet_draft_source.h"
#include "tests/support/recording_sink.h"
#include "tests/support/tiny_tokenizer.h"
#include "tests/verifier/engine/engine_device.h"
#include "verifier/engine/engine.h"

namespace outrider {

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() {
    testing::GiveDevice(model_);
    tokenizer_ = Tokenizer::FromJson(testing::TinyTokenizerJson(testing::kLetters)).value();
    Restart({.admission = {.prefix_cache = false}});
  }

  void Restart(const EngineOptions& options, VerifierMetrics* metrics = nullptr) {
    engine_ =
        std::make_unique<Engine>(options, &model_, tokenizer_.get(), &source_, metrics, &clock_);
  }

  std::shared_ptr<testing::RecordingSink> Submit(uint64_t id, GenerationRequest request) {
    auto sink = std::make_shared<testing::RecordingSink>();
    const Status status = engine_->Submit(id, std::move(request), sink);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return sink;
  }

  // Choices of one prompt with ids from `id` on; their sinks are added to sinks_.
  std::vector<RequestChoice> Choices(uint64_t id, int count, const GenerationRequest& request) {
    std::vector<RequestChoice> choices;
    for (int i = 0; i < count; ++i) {
      sinks_.push_back(std::make_shared<testing::RecordingSink>());
      choices.push_back({.id = id + static_cast<uint64_t>(i),
                         .request = request,
                         .sink = sinks_.back(),
                         .after = i == 0 ? std::nullopt : std::optional(id)});
    }
    return choices;
  }

  // Sends the whole draft of session 1: one sequence.
  void Draft(uint32_t round, std::vector<TokenId> tokens,
             std::vector<DraftDistribution> distributions = {}) {
    engine_->draft_consumer().OnDraft(1, round, DraftTree::Chain(tokens, std::move(distributions)),
                                      /*complete=*/true);
  }

  static GenerationRequest Greedy(int max_tokens) {
    return {.prompt = {1, 2, 3, 4, 5, 6},
            .sampling = {.temperature = 0},
            .max_tokens = max_tokens,
            .seed = 11};
  }

  // The greedy continuation, directly from the model.
  std::vector<TokenId> GreedyPath(std::vector<TokenId> tokens, int count) const {
    std::vector<TokenId> out;
    for (int i = 0; i < count; ++i) {
      const std::vector<float> logits = model_.Logits(tokens);
      const auto best = std::max_element(logits.begin(), logits.begin() + testing::kLetters);
      tokens.push_back(static_cast<TokenId>(best - logits.begin()));
      out.push_back(tokens.back());
    }
    return out;
  }

  FakeModel model_{{.vocab_size = 32, .total_pages = 64}};
  std::unique_ptr<Tokenizer> tokenizer_;
  testing::PuppetDraftSource source_;
  testing::FakeClock clock_;
  MetricsRegistry registry_;
  VerifierMetrics metrics_{registry_};  // without arms, since the engine has no planner
  std::vector<std::shared_ptr<testing::RecordingSink>> sinks_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace outrider
