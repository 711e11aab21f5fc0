// The drafting loop's parts over a FakeModel and a clock that the test advances, without the loop.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "drafter/propose/depth_drafter.h"
#include "drafter/propose/draft_forward.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/propose/draft_sender.h"
#include "drafter/propose/draft_sessions.h"
#include "drafter/propose/head_learner.h"
#include "drafter/propose/lookahead.h"
#include "drafter/propose/pass_plan.h"
#include "tests/drafter/propose/session_opening.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/puppet_verifier_link.h"

namespace outrider {

struct PartsOptions {
  int max_sessions = 8;
  int chunk_depths = 2;
  LookaheadOptions lookahead = {};
  const AcceptanceHead* head = nullptr;
};

class PartsTest : public ::testing::Test {
 protected:
  struct Parts {
    Parts(FakeModel* model, const PartsOptions& options, const Clock* clock)
        : head(options.head, &observers),
          sessions(options.max_sessions, model, &observers),
          lookahead(options.lookahead, model, &sessions, &observers),
          sender(&sessions, &lookahead, &observers, clock),
          forward(model, model->max_batch_tokens()),
          depths({.sessions = &sessions,
                  .forward = &forward,
                  .head = &head,
                  .sender = &sender,
                  .observers = &observers,
                  .clock = clock},
                 options.chunk_depths) {}

    DraftObservers observers;
    HeadLearner head;
    DraftSessions sessions;
    Lookahead lookahead;
    DraftSender sender;
    DraftForward forward;
    DepthDrafter depths;
  };

  void Build(const PartsOptions& options = {}, const FakeModelOptions& model = {},
             DraftObserver* observer = nullptr) {
    parts_.reset();
    model_ = std::make_unique<FakeModel>(model);
    parts_ = std::make_unique<Parts>(model_.get(), options, &clock_);
    if (observer != nullptr) parts_->observers.Add(observer);
  }

  VerifierConnection& Connect(uint64_t id) {
    const ModelConfig& config = model_->config();
    parts_->sessions.Connect(id, {.link = std::make_shared<PuppetVerifierLink>(),
                                  .bounds = {.vocab_size = config.vocab_size,
                                             .allowed = config.vocab_size,
                                             .max_context = config.max_position_embeddings,
                                             .max_draft_length = 16,
                                             .max_draft_tokens = 64,
                                             .max_sequences = 16,
                                             .eos_token_ids = config.eos_token_ids,
                                             .distribution_limits = {},
                                             .head = parts_->head.state()}});
    return *parts_->sessions.Find(id);
  }

  static PuppetVerifierLink& LinkOf(VerifierConnection& connection) {
    return static_cast<PuppetVerifierLink&>(*connection.link);
  }

  // Adds the session, with its plan's pages.
  HeldSession& Hold(VerifierConnection& connection, const SessionOpening& open) {
    Result<DraftSession> session = DraftSession::Create(open, &connection.bounds);
    EXPECT_TRUE(session.ok()) << session.status().ToString();
    HeldSession& held = parts_->sessions.Add(connection, open.session, std::move(session).value());
    parts_->sessions.StampPlan(held, clock_.Now());
    EXPECT_TRUE(parts_->sessions.SecurePages(held).ok());
    return held;
  }
  HeldSession& Hold(VerifierConnection& connection, uint64_t id, int length,
                    std::vector<TokenId> tokens = {3, 1, 4, 1, 5}) {
    return Hold(connection, Opening(id, Sequences(1, length), std::move(tokens)));
  }

  // Runs one pass over everything that waits.
  void RunPass() { parts_->depths.Run(PlanPass(parts_->sessions, {})); }
  // Runs passes until nothing waits.
  void RunPasses() {
    while (!PlanPass(parts_->sessions, {}).empty()) RunPass();
  }

  testing::FakeClock clock_;
  std::unique_ptr<FakeModel> model_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace outrider
