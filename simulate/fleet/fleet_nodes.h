// The processes of a simulated fleet as its machines, load and operations see them. Two resolutions
// implement them: engine_nodes.h runs every round, rate_verifier.h and rate_drafter.h
// advance requests by measured rates.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/spec/drafter_hello.h"
#include "common/text/tokenizer.h"
#include "drafter/propose/verifier_link.h"
#include "simulate/fleet/fleet_figures.h"
#include "simulate/fleet/fleet_scenario.h"
#include "simulate/fleet/node.h"
#include "verifier/engine/request.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

// Tokens of the simulated texts: ids 0 .. kFleetVocab - 1.
inline constexpr int kFleetVocab = 32;
std::unique_ptr<Tokenizer> MakeFleetTokenizer();

// How the scenario's processes introduce themselves, and their models.
TargetIdentity TargetIdentityOf(const Tokenizer& tokenizer);
DrafterHello HelloOf(const FleetScenario& scenario, const Tokenizer& tokenizer);
PacedModelOptions TargetOptions(const FleetScenario& scenario);
PacedModelOptions DraftOptions(const FleetScenario& scenario);

struct FleetRequest {
  uint64_t id = 0;
  std::vector<TokenId> prompt;
  int shared_tokens = 0;  // of the prompt, those that other prompts may begin with, too
  int output_tokens = 0;
};

// A greedy request of the given length, as a verifier takes it.
GenerationRequest GenerationOf(std::vector<TokenId> prompt, int output_tokens);

// A finished request's drafts.
struct FleetDrafts {
  double drafted = 0;  // tokens
  double accepted = 0;
};

// Is told how requests proceed.
class FleetListener {
 public:
  virtual ~FleetListener() = default;
  // Requests have produced this many tokens since the last call.
  virtual void OnTokens(double tokens, Time now) = 0;
  // A request has a chunk of tokens, its first one at least.
  virtual void OnChunk(uint64_t id, int tokens, Time now) = 0;
  // It has its further tokens, in chunks at times unknown.
  virtual void OnRest(uint64_t id, int tokens, Time now) = 0;
  virtual void OnFinished(uint64_t id, const FleetDrafts& drafts) = 0;
  virtual void OnFailed(uint64_t id) = 0;
};

// All calls but Post's are made on the node's thread.
class FleetVerifier : public SimulatedNode {
 public:
  FleetVerifier(int zone, EventQueue* queue, std::shared_ptr<SimulatedDevice> device)
      : SimulatedNode(queue, std::move(device)), zone_(zone) {}

  int zone() const { return zone_; }
  virtual DrafterPool& pool() = 0;
  // Returns false if the request is refused. `listener` must outlive it.
  virtual bool Submit(FleetRequest request, FleetListener* listener) = 0;
  virtual RequestLoad load() const = 0;
  // Takes no more requests.
  virtual void Drain() = 0;
  // No request waits or runs.
  virtual bool idle() const = 0;
  // All requests end.
  virtual void FailAll() = 0;
  // The drafters' part of this verifier: the sum of what share of each serves it.
  virtual void SetDrafters(double /*drafters*/) {}
  // Passes of drafters for it that no drafter counts.
  virtual double drafter_seconds() const { return 0; }
  // The same of plans: from their arrival to their drafts.
  virtual double plan_seconds() const { return 0; }
  // If every round is simulated.
  virtual PassSums pass_sums() const { return {}; }

 private:
  const int zone_;
};

class FleetDrafter : public SimulatedNode {
 public:
  FleetDrafter(const FleetScenario& scenario, int zone, const Tokenizer& tokenizer,
               EventQueue* queue, std::shared_ptr<SimulatedDevice> device)
      : SimulatedNode(queue, std::move(device)),
        zone_(zone),
        hello_(HelloOf(scenario, tokenizer)) {}

  int zone() const { return zone_; }
  const DrafterHello& hello() const { return hello_; }
  virtual LinkEvents& events() = 0;
  // From the arrival of plans to their drafts, in total, as outrider_drafter_draft_seconds.
  virtual double plan_seconds() const { return 0; }

 private:
  const int zone_;
  const DrafterHello hello_;
};

}  // namespace outrider
