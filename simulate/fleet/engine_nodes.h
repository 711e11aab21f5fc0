// The processes of a fleet in which every round is simulated: production engine and pool with a
// paced target, production drafting loop with a paced draft model.
//
// Thread: one owner.
#pragma once

#include <memory>
#include <optional>

#include "drafter/propose/draft_loop.h"
#include "drafter/propose/draft_observer.h"
#include "simulate/fleet/fleet_nodes.h"
#include "simulate/fleet/paced_model.h"
#include "verifier/engine/engine.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

class EngineVerifier final : public FleetVerifier {
 public:
  // `tokenizer` and `queue` must outlive it. `speculates`: false for plain decoding. `seed`: of the
  // requests.
  EngineVerifier(const FleetScenario& scenario, bool speculates, int zone, uint64_t seed,
                 const Tokenizer* tokenizer, EventQueue* queue,
                 std::shared_ptr<SimulatedDevice> device);

  DrafterPool& pool() override { return pool_; }
  bool Submit(FleetRequest request, FleetListener* listener) override;
  RequestLoad load() const override {
    return {.running = engine_.running(), .waiting = engine_.waiting()};
  }
  void Drain() override { engine_.Drain(); }
  bool idle() const override { return engine_.idle(); }
  void FailAll() override;
  PassSums pass_sums() const override;

 protected:
  bool Step() override;
  std::optional<Time> NextDeadline() const override { return engine_.NextDeadline(); }

 private:
  class Sink;

  PacedModel model_;
  DrafterPool pool_;
  PassSums sums_;     // but for rows, which the model counts
  int decoding_ = 0;  // requests
  Time pass_end_{};
  Engine engine_;
};

class LoopDrafter final : public FleetDrafter, private DraftObserver {
 public:
  // `ahead_tokens`: of lookahead drafting for a verdict, as DraftLoopOptions.
  LoopDrafter(const FleetScenario& scenario, int zone, int ahead_tokens, const Tokenizer& tokenizer,
              EventQueue* queue, std::shared_ptr<SimulatedDevice> device);

  LinkEvents& events() override { return loop_; }
  double plan_seconds() const override { return plan_seconds_; }

 protected:
  bool Step() override { return loop_.Step(); }

 private:
  void OnDraftSent(const HeldSession& /*held*/, double seconds, Time /*now*/) override {
    plan_seconds_ += seconds;
  }

  double plan_seconds_ = 0;
  PacedModel model_;
  DraftLoop loop_;
};

}  // namespace outrider
