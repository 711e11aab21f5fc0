// A verifier of a fleet that is simulated by rates: production admission and drafter pool decide
// about each request, which then advances at the rate that was measured for as many running
// requests and as many drafters (rate_table.h).
//
// All requests of a verifier advance alike, so their progress is one number, the tokens that a
// request would have had since the start; a request ends when it reaches a fixed value. What
// happens to one costs O(log requests), however the rate changes meanwhile.
//
// Thread: one owner.
#pragma once

#include <cstdint>
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
  // All must outlive it. `speculates`: false for plain decoding.
  RateVerifier(const FleetScenario& scenario, const LayoutRates* rates, bool speculates, int zone,
               uint64_t seed, const Tokenizer& tokenizer, EventQueue* queue);

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
  template <class At>
  using Due = std::priority_queue<std::pair<At, uint64_t>, std::vector<std::pair<At, uint64_t>>,
                                  std::greater<>>;

  void OnDraft(uint64_t session, uint32_t round, const DraftTree& draft, bool complete) override;
  void OnDrafterLost(uint64_t session) override;
  void OnDrafterBack(uint64_t /*session*/) override {}
  void OnRefused(uint64_t session) override { OnDrafterLost(session); }

  // Lets time pass until now, at the present rate.
  void Advance();
  void Admit();
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
  // By the present numbers of requests and drafters.
  void UpdateRate();

  const FleetScenario& scenario_;
  const LayoutRates& rates_;
  const bool speculates_;
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
  Due<Time> first_chunks_;
  Due<double> ends_;   // by `tokens_`
  double tokens_ = 0;  // of a request since the start
  Time advanced_{};    // until when it has
  RatePoint rate_;
  double drafter_seconds_ = 0;
};

}  // namespace outrider
