// A verifier of a fleet that is simulated by rates: production admission and drafter pool decide
// about each request. Pass by pass its prompt is then read in chunks, as the scheduler does, until
// it decodes: then each pass brings it what was measured for as many requests that decode and as
// many drafters (rate_table.h).
//
// All requests that decode advance alike, so their progress is one number, the tokens that a
// request would have had since the start; a request ends when it reaches a fixed value. A pass
// costs O(1), and a request O(log requests).
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simulate/fleet/fleet_nodes.h"
#include "simulate/fleet/paced_model.h"
#include "simulate/fleet/rate_table.h"
#include "verifier/engine/admission.h"
#include "verifier/engine/admission_gate.h"
#include "verifier/engine/draft_source.h"
#include "verifier/engine/session.h"

namespace outrider {

class RateVerifier final : public FleetVerifier, private DraftConsumer {
 public:
  // All must outlive it.
  RateVerifier(const FleetScenario& scenario, const LayoutRates* rates, FleetLayout layout,
               int zone, uint64_t seed, const Tokenizer& tokenizer, EventQueue* queue);

  DrafterPool& pool() override { return pool_; }
  bool Submit(FleetRequest request, FleetListener* listener) override;
  RequestLoad load() const override {
    return {.running = admission_.running(), .waiting = admission_.waiting()};
  }
  void Drain() override { draining_ = true; }
  bool idle() const override { return sessions_.empty(); }
  void FailAll() override;
  void SetDrafters(double drafters) override;
  double drafter_seconds() const override { return drafter_seconds_; }
  double plan_seconds() const override { return plan_seconds_; }

 protected:
  bool Step() override;
  std::optional<Time> NextDeadline() const override;

 private:
  // A request, beside its session.
  struct Progress {
    int shared_tokens = 0;  // of its prompt
    int first_tokens = 0;
    bool has_drafter = false;
  };
  // A prompt, or what is left of it.
  struct Reading {
    uint64_t session = 0;
    int tokens = 0;
  };
  using End = std::pair<double, uint64_t>;  // by `tokens_`, of a session

  void OnDraft(uint64_t session, uint32_t round, const DraftTree& draft, bool complete) override;
  void OnDrafterLost(uint64_t session) override;
  void OnDrafterBack(uint64_t /*session*/) override {}
  void OnRefused(uint64_t session) override { OnDrafterLost(session); }

  void Admit();
  void RunPass();
  // Takes prompts into a pass beside `rows` others. Returns the number of their tokens, and appends
  // the sessions whose prompt it ends to `read`.
  int ReadPrompts(double rows, std::vector<uint64_t>* read);
  // When the next pass begins, if nothing else arrives. REQUIRES: a request runs.
  Time NextPass() const;
  // All requests that decode gain what the rate says.
  void Decode();
  // Gives the session to a drafter, if one has room.
  void OpenAtDrafter(const Session& session);
  // The same for sessions without one.
  void ReopenAtDrafters();
  // Sends the plans after drafts that have arrived.
  void DecideRounds();
  DraftPlan PlanOf(uint32_t round, bool drafts) const;
  void SetDraftTimeout(uint64_t session);
  void TakeFirstChunk(uint64_t id);
  void SharePrompt(Session& session, int shared_tokens);
  void Finish(uint64_t id);
  // By the present numbers of requests that decode and of drafters.
  RatePoint Rate() const;

  const FleetScenario& scenario_;
  const LayoutRates& rates_;
  const FleetLayout layout_;
  SimulatedRandom random_;
  PacedModel model_;  // of which only the KV pages are used
  const RequestLimits limits_;
  SessionTable sessions_;
  EngineObservers observers_;  // none
  Admission admission_;
  AdmissionGate gate_;
  DrafterPool pool_;
  FleetListener* listener_ = nullptr;  // of all requests
  bool draining_ = false;
  std::unordered_map<uint64_t, Progress> progress_;  // by session
  int with_drafter_ = 0;                             // sessions
  uint64_t opened_ = 0;                              // sessions, at drafters
  std::vector<uint64_t> drafted_;                    // sessions whose first draft has arrived
  double drafters_ = 0;
  std::deque<Reading> reading_;                                      // in order of admission
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;  // of requests that decode
  double tokens_ = 0;                                                // of a request since the start
  Time ready_{};    // when those that decode may go on
  RatePoint rate_;  // of the last pass
  double drafter_seconds_ = 0;
  double plan_seconds_ = 0;
};

}  // namespace outrider
