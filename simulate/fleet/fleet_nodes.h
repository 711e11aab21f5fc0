// The two kinds of processes of the simulated fleet: production engine and pool with a paced
// target, production drafting loop with a paced draft model.
//
// Thread: one owner.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/text/tokenizer.h"
#include "drafter/propose/draft_loop.h"
#include "simulate/fleet/fleet_scenario.h"
#include "simulate/fleet/node.h"
#include "verifier/engine/engine.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

// Tokens of the simulated texts: ids 0 .. kFleetVocab - 1.
inline constexpr int kFleetVocab = 32;
std::unique_ptr<Tokenizer> MakeFleetTokenizer();

class FleetVerifier final : public SimulatedNode {
 public:
  // `tokenizer` and `queue` must outlive it. `speculates`: false for plain decoding. `seed`: of the
  // requests.
  FleetVerifier(const FleetScenario& scenario, bool speculates, int zone, uint64_t seed,
                const Tokenizer* tokenizer, EventQueue* queue,
                std::shared_ptr<SimulatedDevice> device);

  int zone() const { return zone_; }
  Engine& engine() { return engine_; }
  DrafterPool& pool() { return pool_; }

 protected:
  bool Step() override { return engine_.Step(); }
  std::optional<Time> NextDeadline() const override { return engine_.NextDeadline(); }

 private:
  const int zone_;
  PacedModel model_;
  DrafterPool pool_;
  Engine engine_;
};

class FleetDrafter final : public SimulatedNode {
 public:
  // `ahead_tokens`: of lookahead drafting for a verdict, as DraftLoopOptions.
  FleetDrafter(const FleetScenario& scenario, int zone, int ahead_tokens,
               const Tokenizer* tokenizer, EventQueue* queue,
               std::shared_ptr<SimulatedDevice> device);

  int zone() const { return zone_; }
  DraftLoop& loop() { return loop_; }
  const DrafterHello& hello() const { return hello_; }

 protected:
  bool Step() override { return loop_.Step(); }

 private:
  const int zone_;
  PacedModel model_;
  DraftLoop loop_;
  DrafterHello hello_;
};

}  // namespace outrider
