// A drafter's stream to a verifier: production's links on both sides, with the simulated network
// between them.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "simulate/fleet/event_queue.h"
#include "simulate/fleet/fleet_network.h"
#include "simulate/fleet/fleet_nodes.h"

namespace outrider {

class FleetConnection : public std::enable_shared_from_this<FleetConnection> {
 public:
  // All must outlive it. `id`: unique in the fleet. `network`: nullptr for a drafter in the
  // verifier's process.
  FleetConnection(uint64_t id, FleetVerifier* verifier, FleetDrafter* drafter, EventQueue* queue,
                  FleetNetwork* network);

  // What the drafter does with what the verifier wants; without it, nothing is sent. Call before
  // Dial.
  void set_on_demand(std::function<void(const DrafterDemand&)> f) { on_demand_ = std::move(f); }
  // The drafter connects and says hello. `ended`: called once, when the stream ends.
  void Dial(std::function<void()> ended);
  // The drafter wants to leave the verifier after the last session.
  void Leave();
  // The stream ends: both sides learn of it now.
  void Break(StreamEnd why);
  // The drafter's process ends: what it sent before still arrives.
  void CloseAfterSending();

  bool is_open() const { return is_open_; }
  // The verifier refused the drafter or closed its stream: nothing a simulation should do.
  bool was_expelled() const { return was_expelled_; }
  FleetVerifier* verifier() const { return verifier_; }
  FleetDrafter* drafter() const { return drafter_; }

 private:
  class ToDrafter;
  class ToVerifier;

  // The verifier or the drafter sends at its clock's time. `receive` runs on the other's node.
  void SendToDrafter(LinkMessage message);
  void SendToVerifier(std::function<void(DrafterPool&, Time)> receive);
  void SendDemand(const DrafterDemand& demand);
  Time Arrival(int from, int to, Time sent, Time* last);

  const uint64_t id_;
  FleetVerifier* const verifier_;
  FleetDrafter* const drafter_;
  EventQueue* const queue_;
  FleetNetwork* const network_;
  std::function<void()> ended_;
  std::function<void(const DrafterDemand&)> on_demand_;
  bool is_open_ = true;
  bool was_expelled_ = false;
  Time last_to_drafter_{};
  Time last_to_verifier_{};
};

}  // namespace outrider
