// The machines of a simulated fleet: which processes run where, and who is attached to whom.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drafter/subset/verifier_subset.h"
#include "simulate/fleet/event_queue.h"
#include "simulate/fleet/fleet_connection.h"
#include "simulate/fleet/fleet_network.h"
#include "simulate/fleet/fleet_nodes.h"
#include "simulate/fleet/rate_table.h"

namespace outrider {

class FleetMachines {
 public:
  // A place for one process at a time; nullptr: none runs now.
  struct VerifierSlot {
    int zone = 0;
    FleetVerifier* node = nullptr;
    std::optional<Time> down_since = {};
  };
  struct DrafterSlot {
    int zone = 0;
    FleetDrafter* node = nullptr;
    std::unique_ptr<VerifierSubset> subset = {};  // of `node`; nullptr: it serves all verifiers
  };

  // What machines have done so far.
  struct Usage {
    double verifier_busy = 0;  // seconds
    double drafter_busy = 0;
    double verifier_alive = 0;
    double drafter_alive = 0;  // without those in a verifier's process
    double plan_seconds = 0;   // from plans to their drafts, at those drafters
    PassSums passes;
  };

  // All must outlive it. Starts the scenario's processes. `rates`: of requests; nullptr: every
  // round is simulated.
  FleetMachines(const FleetScenario& scenario, FleetLayout layout, const LayoutRates* rates,
                uint64_t seed, EventQueue* queue);

  // Called when a verifier's process ends, before its engine is gone.
  void set_on_verifier_end(std::function<void(FleetVerifier*)> f) { on_end_ = std::move(f); }

  const std::vector<VerifierSlot>& verifiers() const { return verifiers_; }
  const std::vector<DrafterSlot>& drafters() const { return drafters_; }
  // The slot's address for drafters and routers; in the order of slots.
  const std::string& VerifierName(size_t slot) const { return (*addresses_)[slot]; }
  int running_verifiers() const;
  int running_drafters() const;
  // How often a verifier's slot was added or got or lost its process.
  uint64_t changes() const { return changes_; }
  FleetNetwork& network() { return network_; }

  size_t AddVerifierSlot(int zone);
  size_t AddDrafterSlot(int zone);
  // Starts a process in a slot, beside the one that may still run there and that this returns: the
  // slot is the new one's.
  FleetVerifier* StartVerifier(size_t slot);
  FleetDrafter* StartDrafter(size_t slot);
  // The slot's process takes no new requests; it is returned and still runs. nullptr: none did.
  FleetVerifier* DetachVerifier(size_t slot);
  // Ends a process, whether it is in a slot or not.
  void EndVerifier(FleetVerifier* verifier);
  void EndDrafter(FleetDrafter* drafter);
  // Breaks the streams between the zones as keepalive does, and dials again at `until`.
  void BreakStreams(int zone_a, int zone_b, Time until);

  Usage usage() const;
  int64_t expelled() const;

 private:
  // A drafter in a verifier's process.
  struct Inside {
    FleetVerifier* verifier = nullptr;
    std::unique_ptr<FleetDrafter> drafter;
  };

  std::unique_ptr<FleetVerifier> MakeVerifier(int zone, std::shared_ptr<SimulatedDevice> device);
  std::unique_ptr<FleetDrafter> MakeDrafter(int zone, int ahead_tokens,
                                            std::shared_ptr<SimulatedDevice> device);
  std::shared_ptr<FleetConnection> Connect(FleetVerifier* verifier, FleetDrafter* drafter,
                                           bool is_remote);
  void Dial(FleetVerifier* verifier, FleetDrafter* drafter, bool is_remote);
  // If `drafter` is still the slot's and wants the verifier's slot, and somebody runs there.
  void DialAgain(size_t slot, const FleetDrafter* drafter, size_t verifier_slot);
  void BeginSubset(size_t slot);
  // Carries out what the slot's subset decides, now and whenever it is due, while `drafter` is the
  // slot's process.
  void AdvanceSubset(size_t slot, const FleetDrafter* drafter);
  void Carry(size_t slot, const SubsetChange& change);
  // The slot's drafter asks a verifier what it wants, and its subset hears the answer.
  void Visit(size_t slot, size_t verifier_slot);
  // Every verifier tells its drafters what it wants, now and each second, as a service does.
  void TellDemands();
  // Shares out each drafter's time among the verifiers that it is attached to, by their running
  // requests, now and a few times a second. Only rates need it.
  void ShareDrafters();
  // The slot's drafter dials a verifier of its subset.
  void AttachOfSubset(size_t slot, size_t verifier_slot);
  void OnStreamOfSubsetEnded(size_t slot, const FleetDrafter* drafter, size_t verifier_slot);
  void EndStreams(const SimulatedNode* node);
  void StartInside(const VerifierSlot& slot, std::shared_ptr<SimulatedDevice> device);

  const FleetScenario& scenario_;
  const FleetLayout layout_;
  const LayoutRates* const rates_;
  EventQueue* const queue_;
  SimulatedRandom random_;
  FleetNetwork network_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  std::function<void(FleetVerifier*)> on_end_;
  std::vector<VerifierSlot> verifiers_;
  std::vector<DrafterSlot> drafters_;
  std::vector<std::shared_ptr<FleetConnection>> connections_;  // open ones, and some that ended
  std::shared_ptr<const std::vector<std::string>> addresses_;  // names of all verifiers' slots
  uint64_t changes_ = 0;
  int64_t expelled_ = 0;
  uint64_t next_connection_ = 1;
  // All processes ever: events of the queue may still name them. Verifiers go first: each ends its
  // sessions, of which it tells the drafters.
  std::vector<std::unique_ptr<FleetDrafter>> all_drafters_;
  std::vector<Inside> all_inside_;
  std::vector<std::unique_ptr<FleetVerifier>> all_verifiers_;
};

}  // namespace outrider
