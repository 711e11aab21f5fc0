#include "simulate/fleet/fleet_machines.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// The longest pause before a drafter dials again (drafter/rpc/grpc_verifier_link.h).
constexpr double kLongestBackoff = 2;

}  // namespace

FleetMachines::FleetMachines(const FleetScenario& scenario, FleetLayout layout, uint64_t seed,
                             EventQueue* queue)
    : scenario_(scenario),
      layout_(layout),
      queue_(queue),
      random_(MixBits(seed)),
      network_(scenario.network, MixBits(seed + 1)),
      tokenizer_(MakeFleetTokenizer()) {
  for (size_t zone = 0; zone < scenario.zones.size(); ++zone) {
    for (int i = 0; i < scenario.zones[zone].verifiers; ++i) {
      StartVerifier(AddVerifierSlot(static_cast<int>(zone)));
    }
  }
  if (layout != FleetLayout::kSplit) return;
  for (size_t zone = 0; zone < scenario.zones.size(); ++zone) {
    for (int i = 0; i < scenario.zones[zone].drafters; ++i) {
      StartDrafter(AddDrafterSlot(static_cast<int>(zone)));
    }
  }
}

int FleetMachines::running_verifiers() const {
  return static_cast<int>(std::count_if(verifiers_.begin(), verifiers_.end(),
                                        [](const VerifierSlot& s) { return s.node != nullptr; }));
}

int FleetMachines::running_drafters() const {
  return static_cast<int>(std::count_if(drafters_.begin(), drafters_.end(),
                                        [](const DrafterSlot& s) { return s.node != nullptr; }));
}

size_t FleetMachines::AddVerifierSlot(int zone) {
  verifiers_.push_back({.zone = zone});
  return verifiers_.size() - 1;
}

size_t FleetMachines::AddDrafterSlot(int zone) {
  drafters_.push_back({.zone = zone});
  return drafters_.size() - 1;
}

FleetVerifier* FleetMachines::StartVerifier(size_t slot) {
  VerifierSlot& place = verifiers_[slot];
  const auto device = std::make_shared<SimulatedDevice>();
  all_verifiers_.push_back(
      std::make_unique<FleetVerifier>(scenario_, layout_ != FleetLayout::kPlain, place.zone,
                                      random_.Bits(), tokenizer_.get(), queue_, device));
  FleetVerifier* const before = std::exchange(place.node, all_verifiers_.back().get());
  if (layout_ == FleetLayout::kColocated) StartInside(place, device);
  for (const DrafterSlot& drafter : drafters_) {
    if (drafter.node == nullptr) continue;
    // Drafters that found nobody dial after a random part of a bound that has grown meanwhile.
    const double down =
        place.down_since.has_value() ? Seconds(queue_->now() - *place.down_since) : 0;
    const double pause = random_.Uniform() * std::min(down, kLongestBackoff);
    queue_->After(SimulatedSeconds(pause), [this, verifier = place.node, node = drafter.node] {
      if (verifier->alive() && node->alive()) Connect(verifier, node, /*is_remote=*/true);
    });
  }
  place.down_since.reset();
  return before;
}

void FleetMachines::StartInside(const VerifierSlot& slot, std::shared_ptr<SimulatedDevice> device) {
  // Passes take turns. If a step went first each time, a draft would wait for one at each depth and
  // always be late; on a GPU, kernels of a small pass get in between those of a large one.
  slot.node->set_yields();
  all_inside_.push_back({.verifier = slot.node,
                         .drafter = std::make_unique<FleetDrafter>(
                             scenario_, slot.zone, tokenizer_.get(), queue_, std::move(device))});
  Connect(slot.node, all_inside_.back().drafter.get(), /*is_remote=*/false);
}

FleetDrafter* FleetMachines::StartDrafter(size_t slot) {
  DrafterSlot& place = drafters_[slot];
  all_drafters_.push_back(std::make_unique<FleetDrafter>(
      scenario_, place.zone, tokenizer_.get(), queue_, std::make_shared<SimulatedDevice>()));
  FleetDrafter* const before = std::exchange(place.node, all_drafters_.back().get());
  for (const VerifierSlot& verifier : verifiers_) {
    if (verifier.node != nullptr) Connect(verifier.node, place.node, /*is_remote=*/true);
  }
  return before;
}

FleetVerifier* FleetMachines::DetachVerifier(size_t slot) {
  verifiers_[slot].down_since = queue_->now();
  return std::exchange(verifiers_[slot].node, nullptr);
}

void FleetMachines::EndVerifier(FleetVerifier* verifier) {
  for (size_t slot = 0; slot < verifiers_.size(); ++slot) {
    if (verifiers_[slot].node == verifier) DetachVerifier(slot);
  }
  if (!verifier->alive()) return;
  if (on_end_) on_end_(verifier);
  for (const Inside& inside : all_inside_) {
    if (inside.verifier == verifier) inside.drafter->Kill();
  }
  EndStreams(verifier);
  verifier->Kill();
  verifier->engine().CancelAll(Unavailable("the verifier has ended"));
}

void FleetMachines::EndDrafter(FleetDrafter* drafter) {
  for (DrafterSlot& slot : drafters_) {
    if (slot.node == drafter) slot.node = nullptr;
  }
  EndStreams(drafter);
  drafter->Kill();
}

void FleetMachines::EndStreams(const SimulatedNode* node) {
  for (const auto& connection : connections_) {
    if (connection->verifier() == node) connection->Break(StreamEnd::kGone);
    if (connection->drafter() == node) connection->CloseAfterSending();
  }
  expelled_ = expelled();
  std::erase_if(connections_, [](const auto& connection) { return !connection->is_open(); });
}

void FleetMachines::Connect(FleetVerifier* verifier, FleetDrafter* drafter, bool is_remote) {
  connections_.push_back(std::make_shared<FleetConnection>(
      next_connection_++, verifier, drafter, queue_, is_remote ? &network_ : nullptr));
  connections_.back()->Dial();
}

void FleetMachines::BreakStreams(int zone_a, int zone_b, Time until) {
  const auto [low, high] = std::minmax(zone_a, zone_b);
  for (const auto& connection : connections_) {
    FleetVerifier* const verifier = connection->verifier();
    FleetDrafter* const drafter = connection->drafter();
    const auto [near, far] = std::minmax(verifier->zone(), drafter->zone());
    if (!connection->is_open() || near > low || far < high) continue;
    connection->Break(StreamEnd::kGone);
    const double pause = random_.Uniform() * kLongestBackoff;
    queue_->At(until + SimulatedSeconds(pause), [this, verifier, drafter] {
      if (verifier->alive() && drafter->alive()) Connect(verifier, drafter, /*is_remote=*/true);
    });
  }
}

FleetMachines::Usage FleetMachines::usage() const {
  Usage usage;
  for (const auto& verifier : all_verifiers_) {
    usage.verifier_busy += verifier->busy_seconds();
    usage.verifier_alive += verifier->alive_seconds();
  }
  for (const auto& drafter : all_drafters_) {
    usage.drafter_busy += drafter->busy_seconds();
    usage.drafter_alive += drafter->alive_seconds();
  }
  for (const Inside& inside : all_inside_) usage.drafter_busy += inside.drafter->busy_seconds();
  return usage;
}

int64_t FleetMachines::expelled() const {
  return expelled_ + std::count_if(connections_.begin(), connections_.end(), [](const auto& c) {
           return !c->is_open() && c->was_expelled();
         });
}

}  // namespace outrider
