// A drafting loop over a FakeModel with the test as its verifier, and the oracle of its drafts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/spec/coins.h"
#include "common/spec/draft_law.h"
#include "common/spec/warper.h"
#include "drafter/propose/draft_loop.h"
#include "tests/support/fake_model.h"
#include "tests/support/puppet_verifier_link.h"

namespace outrider {

// The draft that a session must get, straight from the definition: a fresh warper and a fresh path
// for every row, no KV, no batch.
inline DraftPath OracleDraft(const FakeModel& model, const OpenEvent& session,
                             const DraftPlan& plan, int allowed, const DraftLawLimits& limits) {
  DraftPath path;
  std::vector<TokenId> tokens = session.tokens;
  const auto prompt = static_cast<size_t>(session.prompt_tokens);
  for (int depth = 0; depth < plan.length; ++depth) {
    Warper warper(session.sampling, model.config().vocab_size, allowed);
    warper.ObservePrompt(std::span<const TokenId>(tokens).first(prompt));
    for (size_t i = prompt; i < tokens.size(); ++i) warper.ObserveOutput(tokens[i]);
    std::vector<float> row = model.Logits(tokens);
    TokenId token;
    if (session.sampling.greedy()) {
      token = warper.Argmax(row, {});
    } else {
      warper.Warp(row, {});
      path.laws.push_back(MakeDraftLaw(row, limits));
      token = SampleDraftLaw(
          path.laws.back(),
          Coin(session.seed, plan.round, static_cast<uint32_t>(depth), Purpose::kDraftToken));
    }
    path.tokens.push_back(token);
    tokens.push_back(token);
    const std::vector<TokenId>& eos = model.config().eos_token_ids;
    if (std::find(eos.begin(), eos.end(), token) != eos.end()) break;
  }
  return path;
}

inline void ExpectSamePath(const DraftPath& actual, const DraftPath& expected) {
  EXPECT_EQ(actual.tokens, expected.tokens);
  ASSERT_EQ(actual.laws.size(), expected.laws.size());
  for (size_t i = 0; i < actual.laws.size(); ++i) {
    EXPECT_EQ(actual.laws[i].ids, expected.laws[i].ids) << "depth " << i;
    EXPECT_EQ(actual.laws[i].weights, expected.laws[i].weights) << "depth " << i;
  }
}

class LoopTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kConnection = 7;
  static constexpr int kVocab = 32;

  // Starts a model and a loop with one welcomed connection.
  void Start(FakeModelOptions model = {}, DraftLoopOptions options = {}, int vocab_limit = kVocab) {
    loop_.reset();
    model_ = std::make_unique<FakeModel>(model);
    loop_ = std::make_unique<DraftLoop>(model_.get(), options, &clock_, nullptr);
    link_ = Connect(kConnection, vocab_limit);
  }

  std::shared_ptr<PuppetVerifierLink> Connect(uint64_t connection, int vocab_limit = kVocab) {
    auto link = std::make_shared<PuppetVerifierLink>();
    Push(WelcomeEvent{.link = link, .vocab_limit = vocab_limit, .law_limits = limits_}, connection);
    return link;
  }

  template <class Event>
  void Push(Event event, uint64_t connection = kConnection) {
    ASSERT_TRUE(loop_->Push({connection, std::move(event)}));
  }

  void Push(SessionVerdict verdict) { Push(VerdictsEvent{{std::move(verdict)}}); }

  // Steps until there is nothing left to do.
  void StepToRest() {
    for (int i = 0; i < 10000; ++i) {
      if (!loop_->Step()) return;
    }
    FAIL() << "the loop never comes to rest";
  }

  // The one draft that was sent.
  Draft TheDraft() {
    StepToRest();
    std::vector<Draft> drafts = link_->TakeDrafts();
    EXPECT_EQ(drafts.size(), 1u);
    return drafts.empty() ? Draft() : drafts[0];
  }

  static OpenEvent Session(uint64_t id, int length, std::vector<TokenId> tokens = {3, 1, 4, 1, 5}) {
    OpenEvent open;
    open.session = id;
    open.prompt_tokens = static_cast<int>(tokens.size());
    open.tokens = std::move(tokens);
    open.seed = 1000 + id;
    open.plan = {.round = 1, .length = length};
    return open;
  }

  void ExpectEverythingBack() {
    EXPECT_EQ(model_->sequences(), 0);
    EXPECT_EQ(model_->free_pages(), model_->total_pages());
    EXPECT_EQ(loop_->load().sessions, 0);
  }

  SteadyClock clock_;
  DraftLawLimits limits_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<DraftLoop> loop_;
  std::shared_ptr<PuppetVerifierLink> link_;
};

}  // namespace outrider
