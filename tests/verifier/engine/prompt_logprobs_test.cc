#include "verifier/engine/prompt_logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/puppet_draft_source.h"
#include "tests/support/recording_sink.h"
#include "tests/support/tiny_tokenizer.h"
#include "verifier/engine/engine.h"

namespace outrider {
namespace {

using testing::RecordingSink;
using Tokens = std::vector<TokenId>;

constexpr int kTokens = 6;  // per text

class PromptLogprobs : public ::testing::Test {
 protected:
  void Restart(EngineOptions options, int pages = 64) {
    model_ = std::make_unique<FakeModel>(FakeModelOptions{.vocab_size = 32, .total_pages = pages});
    model_->set_on_forward([this](int) { clock_.Advance(step_); });
    engine_ = std::make_unique<Engine>(options, model_.get(), tokenizer_.get(), &source_, nullptr,
                                       &clock_);
  }
  std::shared_ptr<RecordingSink> Submit(uint64_t id, GenerationRequest request) {
    auto sink = std::make_shared<RecordingSink>();
    const Status status = engine_->Submit(id, std::move(request), sink);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return sink;
  }
  static GenerationRequest RequestWithLogprobs(Tokens prompt, int alternatives) {
    return {.prompt = std::move(prompt),
            .sampling = {.temperature = 0},
            .max_tokens = kTokens,
            .seed = 11,
            .prompt_logprobs = alternatives};
  }
  void RunAll() {
    while (engine_->Step()) {
    }
  }

  // Compares with the model's rows, one after another.
  void ExpectLogprobsOf(const Tokens& prompt, int alternatives,
                        const std::vector<TokenLogprobs>& got) const {
    ASSERT_EQ(got.size(), prompt.size() - 1);
    for (size_t i = 1; i < prompt.size(); ++i) {
      const std::vector<float> row =
          model_->Logits(Tokens(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(i)));
      const TokenLogprobs want =
          LogprobsOf(std::span(row).first(testing::kLetters), prompt[i], alternatives);
      EXPECT_EQ(got[i - 1].logprob, want.logprob) << i;
      EXPECT_EQ(got[i - 1].rank, want.rank) << i;
      EXPECT_EQ(got[i - 1].top, want.top) << i;
    }
  }

  void ExpectLogprobsOfOutput(Tokens text, const RecordingSink& sink) const {
    for (const Chunk& chunk : sink.chunks) {
      EXPECT_TRUE(chunk.prompt_logprobs.empty());
      ASSERT_EQ(chunk.logprobs.size(), chunk.tokens.size());
      for (size_t i = 0; i < chunk.tokens.size(); ++i) {
        const std::vector<float> row = model_->Logits(text);
        EXPECT_EQ(chunk.logprobs[i].logprob,
                  LogprobsOf(std::span(row).first(testing::kLetters), chunk.tokens[i], 1).logprob);
        text.push_back(chunk.tokens[i]);
      }
    }
  }

  Tokens GreedyText(Tokens prompt, int tokens) const {
    Tokens text;
    for (int i = 0; i < tokens; ++i) {
      const std::vector<float> row = model_->Logits(prompt);
      const auto best = std::max_element(row.begin(), row.begin() + testing::kLetters);
      text.push_back(static_cast<TokenId>(best - row.begin()));
      prompt.push_back(text.back());
    }
    return text;
  }

  const std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::FromJson(testing::TinyTokenizerJson(testing::kLetters)).value();
  testing::PuppetDraftSource source_;
  testing::FakeClock clock_;
  Duration step_ = std::chrono::milliseconds(1);  // duration of a forward pass
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<Engine> engine_;
  const Tokens prompt_ = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
};

// In chunks of five rows, next to another prompt and a sequence that decodes.
TEST_F(PromptLogprobs, MatchRowsInAnyBatch) {
  source_.accepts = false;
  Restart({.admission = {.prefix_cache = false},
           .scheduler = {.token_budget = 64, .prefill_chunk = 5}});
  GenerationRequest plain = RequestWithLogprobs({9, 8, 7}, 0);
  plain.prompt_logprobs.reset();
  plain.logprobs = 1;
  plain.max_tokens = 20;
  const auto decoding = Submit(1, plain);
  engine_->Step();
  const auto sink = Submit(2, RequestWithLogprobs(prompt_, 3));
  const auto other = Submit(3, RequestWithLogprobs({5, 5, 6, 6, 7, 7}, 0));
  RunAll();
  ASSERT_TRUE(sink->ended && other->ended && decoding->ended);
  ExpectLogprobsOf(prompt_, 3, sink->chunks.front().prompt_logprobs);
  ExpectLogprobsOf({5, 5, 6, 6, 7, 7}, 0, other->chunks.front().prompt_logprobs);
  for (size_t i = 1; i < sink->chunks.size(); ++i) {
    EXPECT_TRUE(sink->chunks[i].prompt_logprobs.empty());
  }
  ExpectLogprobsOfOutput({9, 8, 7}, *decoding);
}

// The rows of a round and its draft come before those of a prompt, which are stored separately.
TEST_F(PromptLogprobs, MatchRowsBesideDraftedRound) {
  for (const bool wants_logprobs : {false, true}) {
    SCOPED_TRACE(wants_logprobs);
    source_ = {};
    Restart({.admission = {.prefix_cache = false},
             .scheduler = {.token_budget = 64, .prefill_chunk = 5}});
    GenerationRequest request = RequestWithLogprobs({9, 8, 7}, 0);
    request.prompt_logprobs.reset();
    if (wants_logprobs) request.logprobs = 2;
    request.speculation.draft_length = 3;
    const auto drafted = Submit(1, request);
    while (engine_->Step()) {  // until it waits for its draft
    }
    source_.accepts = false;  // the other one gets no drafts
    const auto asking = Submit(2, RequestWithLogprobs(prompt_, 3));
    const Tokens text = GreedyText(request.prompt, kTokens);
    const auto index = drafted->tokens.size();
    const TokenId wrong = (text[index + 2] + 1) % testing::kLetters;
    engine_->draft_consumer().OnDraft(1, source_.plan(1).round,
                                      DraftTree::Chain({{text[index], text[index + 1], wrong}}, {}),
                                      /*complete=*/true);
    ASSERT_TRUE(engine_->Step());
    ASSERT_EQ(model_->batches().back().size(), 2u) << "one step, of the round and the prompt";
    EXPECT_EQ(drafted->tokens.size(), index + 3) << "two of the draft and one more";
    engine_->draft_consumer().OnDrafterLost(1);
    RunAll();
    ASSERT_TRUE(drafted->ended && asking->ended);
    EXPECT_EQ(drafted->tokens, text);
    EXPECT_EQ(drafted->summary.accepted_tokens, 2);
    EXPECT_EQ(asking->tokens, GreedyText(prompt_, kTokens));
    ExpectLogprobsOf(prompt_, 3, asking->chunks.front().prompt_logprobs);
    if (wants_logprobs) ExpectLogprobsOfOutput(request.prompt, *drafted);
  }
}

// A step's prompt rows are read on the engine thread, after the forward pass.
TEST_F(PromptLogprobs, DelayOthersByQuarterOfStep) {
  source_.accepts = false;
  // A quarter of it reads four rows of 32 logits, at 1.5 ns each.
  step_ = std::chrono::nanoseconds(800);
  Restart({.admission = {.prefix_cache = false},
           .scheduler = {.token_budget = 64, .prefill_chunk = 64}});
  const auto most_rows = [&] {
    size_t most = 0;
    for (const auto& batch : model_->batches()) {
      size_t rows = 0;
      for (const FakeModel::Share& share : batch) {
        if (share.logits_to_host) rows += share.logit_rows.size();
      }
      most = std::max(most, rows);
    }
    return most;
  };
  const Tokens prompt(40, 3);
  GenerationRequest plain = RequestWithLogprobs({9, 8, 7}, 0);
  plain.prompt_logprobs.reset();
  plain.max_tokens = 50;
  const auto decoding = Submit(1, plain);
  engine_->Step();
  const auto beside = Submit(2, RequestWithLogprobs(prompt, 3));
  RunAll();
  ASSERT_TRUE(decoding->ended && beside->ended);
  EXPECT_EQ(most_rows(), 4u);
  ExpectLogprobsOf(prompt, 3, beside->chunks.front().prompt_logprobs);

  const auto alone = Submit(3, RequestWithLogprobs(prompt, 3));
  RunAll();
  ASSERT_TRUE(alone->ended);
  EXPECT_EQ(most_rows(), 39u) << "nobody waits";
}

TEST_F(PromptLogprobs, ChangeNoTokenOfTheOutput) {
  source_.accepts = false;
  Restart({.admission = {.prefix_cache = false},
           .scheduler = {.token_budget = 64, .prefill_chunk = 4}});
  GenerationRequest without = RequestWithLogprobs(prompt_, 0);
  without.prompt_logprobs.reset();
  const auto plain = Submit(1, without);
  const auto asking = Submit(2, RequestWithLogprobs(prompt_, 0));
  RunAll();
  EXPECT_EQ(asking->tokens, plain->tokens);
  EXPECT_TRUE(plain->chunks.front().prompt_logprobs.empty());
}

TEST_F(PromptLogprobs, IgnoreThePrefixCache) {
  source_.accepts = false;
  Restart({.admission = {.prefix_cache = true}});
  Tokens prompt;
  for (int i = 0; i < 40; ++i) prompt.push_back(i % 20);
  GenerationRequest without = RequestWithLogprobs(prompt, 0);
  without.prompt_logprobs.reset();
  Submit(1, without);
  RunAll();
  const auto cached = Submit(2, without);
  const auto asking = Submit(3, RequestWithLogprobs(prompt, 2));
  RunAll();
  EXPECT_GT(cached->summary.cached_tokens, 0);
  EXPECT_EQ(asking->summary.cached_tokens, 0);
  ExpectLogprobsOf(prompt, 2, asking->chunks.front().prompt_logprobs);
}

TEST_F(PromptLogprobs, AreEmptyForOneTokenPrompt) {
  source_.accepts = false;
  Restart({.admission = {.prefix_cache = false}});
  const auto sink = Submit(1, RequestWithLogprobs({4}, 2));
  RunAll();
  ASSERT_TRUE(sink->ended);
  EXPECT_TRUE(sink->chunks.front().prompt_logprobs.empty());
}

TEST_F(PromptLogprobs, RowsAndResultsHaveLimits) {
  EXPECT_EQ(PromptRowsOfStep(1 << 24, std::nullopt), 1);
  EXPECT_EQ(PromptRowsOfStep(1 << 16, std::nullopt), 32);
  EXPECT_EQ(PromptRowsOfStep(1 << 16, 100.), 32);
  EXPECT_EQ(PromptRowsOfStep(100'000, 0.006), 10) << "read in 1.5 ms";
  EXPECT_EQ(PromptRowsOfStep(100'000, 0.), 1);
  const RequestLimits limits{.vocab_size = 32, .max_context = 1 << 18, .kv_tokens = 1 << 18};
  GenerationRequest request = RequestWithLogprobs(Tokens((1 << 18) / 21, 1), 20);
  EXPECT_TRUE(Validate(request, limits).ok()) << Validate(request, limits).ToString();
  request.prompt.push_back(1);
  EXPECT_EQ(Validate(request, limits).code(), Code::kInvalidArgument);
  request.prompt = {1};
  request.prompt_logprobs = 21;
  EXPECT_EQ(Validate(request, limits).message(), "prompt_logprobs: 21, at most 20");
}

}  // namespace
}  // namespace outrider
