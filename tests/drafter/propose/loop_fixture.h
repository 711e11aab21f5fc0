// A drafting loop over a FakeModel with the test as its verifier.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "drafter/propose/draft_loop.h"
#include "tests/drafter/propose/draft_oracle.h"
#include "tests/drafter/propose/loop_device.h"
#include "tests/drafter/propose/session_opening.h"
#include "tests/support/fake_model.h"
#include "tests/support/puppet_verifier_link.h"

namespace outrider {

class LoopTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kConnection = 7;
  static constexpr int kVocab = 32;

  // Starts a model and a loop with one attached connection.
  void Start(FakeModelOptions model = {}, DraftLoopOptions options = {}, int vocab_limit = kVocab) {
    answered_.clear();
    loop_.reset();
    model_ = std::make_unique<FakeModel>(model);
    testing::GiveDevice(*model_);
    head_ = options.head;
    loop_ = std::make_unique<DraftLoop>(model_.get(), options, &clock_, nullptr);
    link_ = Connect(kConnection, vocab_limit);
  }

  std::shared_ptr<PuppetVerifierLink> Connect(uint64_t connection, int vocab_limit = kVocab) {
    auto link = std::make_shared<PuppetVerifierLink>();
    Push(WelcomeEvent{.link = link,
                      .welcome = {.vocab_limit = vocab_limit, .distribution_limits = limits_},
                      .vocabulary = vocabulary_},
         connection);
    return link;
  }

  template <class Event>
  void Push(Event event, uint64_t connection = kConnection) {
    ASSERT_TRUE(loop_->Push({connection, std::move(event)}));
  }

  // Like a verifier: a draft that was sent early for this verdict answers its plan.
  void Push(SessionVerdict decision) {
    DraftPlan& plan = plans_[decision.session];
    std::optional<RoundEnd> end;
    if (decision.next.size() == 1) end = {.node = decision.node, .next = decision.next[0]};
    for (DraftPart& part : link_->TakeEarly()) {
      const bool is_guessed = part.session == decision.session &&
                              part.round == decision.plan.round && part.early == end;
      if (is_guessed && RepeatsPlan(decision.plan, plan)) answered_.push_back(std::move(part));
    }
    plan = decision.plan;
    Push(std::vector<SessionVerdict>{std::move(decision)});
  }
  void Push(SessionOpening opening) {
    plans_[opening.session] = opening.plan;
    Push<SessionOpening>(std::move(opening));
  }

  // Parts of drafts that answer plans since the last call, those sent early first.
  std::vector<DraftPart> TakeDrafts() {
    std::vector<DraftPart> parts = std::exchange(answered_, {});
    for (DraftPart& part : link_->TakeDrafts()) parts.push_back(std::move(part));
    return parts;
  }

  // Steps until there is nothing left to do.
  void StepToRest() {
    for (int i = 0; i < 10000; ++i) {
      if (!loop_->Step()) return;
    }
    FAIL() << "the loop never comes to rest";
  }

  // Assembles the parts of one plan's draft; empty if the plan was rejected.
  static DraftTree Assemble(std::vector<DraftPart> parts) {
    DraftTree tree;
    EXPECT_FALSE(parts.empty());
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(parts[i].session, parts[0].session);
      EXPECT_EQ(parts[i].round, parts[0].round);
      EXPECT_EQ(parts[i].chunk.more, i + 1 < parts.size());
      EXPECT_TRUE(tree.Append(std::move(parts[i].chunk)).ok());
    }
    return tree;
  }

  // The draft of the only plan.
  DraftTree TheDraft() {
    StepToRest();
    return Assemble(TakeDrafts());
  }

  // With a stop rule that never stops, so that a device does not run several depths in a step.
  static SessionOpening DepthByDepth(SessionOpening open) {
    open.plan.stop = {.kind = StopRule::Kind::kConfidence, .threshold = 0.f};
    return open;
  }

  DraftTree Oracle(const SessionOpening& session, const DraftPlan& plan,
                   int allowed = kVocab) const {
    return OracleDraft(*model_, session, plan, allowed, limits_, head_);
  }
  DraftTree Oracle(const SessionOpening& session) const { return Oracle(session, session.plan); }

  void ExpectEverythingBack() {
    EXPECT_EQ(model_->sequences(), 0);
    EXPECT_EQ(model_->free_pages(), model_->total_pages());
    EXPECT_EQ(loop_->load().sessions, 0);
    EXPECT_EQ(loop_->load().free_pages, model_->total_pages());
  }

  SteadyClock clock_;
  // For FakeModels, whose hidden states are their first four logits.
  static const AcceptanceHead& Head() {
    static const AcceptanceHead head{
        .width = 4, .depth = 0, .parameters = {1.f, -1.f, 0.5f, 0.5f, 0.f}};
    return head;
  }

  // The map between a verifier and a drafter with `size` tokens each: the drafter's are letters
  // from "A" on, the verifier's are the same in reverse order, except for the ids from `shared` on,
  // which are pairs of letters.
  static std::shared_ptr<const VocabularyMap> FallingVocabulary(int size, int shared) {
    const auto letter = [](int i) { return std::string(1, static_cast<char>('A' + i)); };
    VocabularyEntries verifier;
    DrafterVocabulary own;
    for (int i = 0; i < size; ++i) {
      const int last = size - 1 - i;
      const std::string token = i < shared ? letter(last) : letter(last) + letter(last + 1);
      EXPECT_TRUE(verifier.Add(TokenKind::kText, token).ok());
      EXPECT_TRUE(own.entries.Add(TokenKind::kText, letter(i)).ok());
    }
    return std::make_shared<const VocabularyMap>(VocabularyMap::Create(verifier, own).value());
  }

  std::shared_ptr<const VocabularyMap> vocabulary_;  // of connections; nullptr: the drafter's own
  DraftDistributionLimits limits_;
  const AcceptanceHead* head_ = nullptr;  // the oracle's; the loop's is in its options
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<DraftLoop> loop_;
  std::shared_ptr<PuppetVerifierLink> link_;

 private:
  std::map<uint64_t, DraftPlan> plans_;  // each session's last one
  std::vector<DraftPart> answered_;      // by early drafts
};

}  // namespace outrider
