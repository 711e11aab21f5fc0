#include "simulate/fleet/fleet_machines.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/base/mix_bits.h"
#include "simulate/fleet/engine_nodes.h"
#include "simulate/fleet/fleet_visit.h"
#include "simulate/fleet/rate_drafter.h"
#include "simulate/fleet/rate_verifier.h"
#include "verifier/pool/demand.h"

namespace outrider {
namespace {

// The longest pause before a drafter dials again (drafter/rpc/grpc_verifier_link.h).
constexpr double kLongestBackoff = 2;
// So that time goes on whatever a subset asks for.
constexpr Duration kLeastPause = std::chrono::milliseconds(1);
constexpr Duration kSharePeriod = std::chrono::milliseconds(500);

constexpr std::string_view kVerifierPrefix = "verifier-";

std::string NameOf(size_t slot) {
  const std::string number = std::to_string(slot);
  const std::string zeros(4 - std::min(number.size(), size_t{4}), '0');
  return std::string(kVerifierPrefix) + zeros + number;
}

size_t SlotOf(const std::string& name) { return std::stoul(name.substr(kVerifierPrefix.size())); }

}  // namespace

FleetMachines::FleetMachines(const FleetScenario& scenario, FleetLayout layout,
                             const LayoutRates* rates, uint64_t seed, EventQueue* queue)
    : scenario_(scenario),
      layout_(layout),
      rates_(rates),
      queue_(queue),
      random_(SplitMix(seed)),
      network_(scenario.network, SplitMix(seed + 1)),
      tokenizer_(MakeFleetTokenizer()),
      addresses_(std::make_shared<const std::vector<std::string>>()) {
  for (size_t zone = 0; zone < scenario.zones.size(); ++zone) {
    for (int i = 0; i < scenario.zones[zone].verifiers; ++i) {
      StartVerifier(AddVerifierSlot(static_cast<int>(zone)));
    }
  }
  if (rates != nullptr && layout != FleetLayout::kPlain) {
    queue->After(Duration{}, [this] { ShareDrafters(); });
  }
  if (layout != FleetLayout::kSplit) return;
  for (size_t zone = 0; zone < scenario.zones.size(); ++zone) {
    for (int i = 0; i < scenario.zones[zone].drafters; ++i) {
      StartDrafter(AddDrafterSlot(static_cast<int>(zone)));
    }
  }
  if (scenario.drafter.subset > 0) TellDemands();
}

int FleetMachines::running_verifiers() const {
  return static_cast<int>(std::count_if(verifiers_.begin(), verifiers_.end(),
                                        [](const VerifierSlot& s) { return s.node != nullptr; }));
}

int FleetMachines::running_drafters() const {
  return static_cast<int>(std::count_if(drafters_.begin(), drafters_.end(),
                                        [](const DrafterSlot& s) { return s.node != nullptr; }));
}

void FleetMachines::DialAgain(size_t slot, const FleetDrafter* drafter, size_t verifier_slot) {
  const DrafterSlot& place = drafters_[slot];
  FleetVerifier* const verifier = verifiers_[verifier_slot].node;
  if (place.node != drafter || verifier == nullptr) return;
  if (place.subset == nullptr) return Dial(verifier, place.node, /*is_remote=*/true);
  if (place.subset->holds(VerifierName(verifier_slot))) AttachOfSubset(slot, verifier_slot);
}

std::unique_ptr<FleetVerifier> FleetMachines::MakeVerifier(
    int zone, std::shared_ptr<SimulatedDevice> device) {
  if (rates_ != nullptr) {
    return std::make_unique<RateVerifier>(scenario_, rates_, layout_, zone, random_.Bits(),
                                          *tokenizer_, queue_);
  }
  const bool speculates = layout_ != FleetLayout::kPlain;
  return std::make_unique<EngineVerifier>(scenario_, speculates, zone, random_.Bits(),
                                          tokenizer_.get(), queue_, std::move(device));
}

std::unique_ptr<FleetDrafter> FleetMachines::MakeDrafter(int zone, int ahead_tokens,
                                                         std::shared_ptr<SimulatedDevice> device) {
  if (rates_ != nullptr) {
    return std::make_unique<RateDrafter>(scenario_, zone, *tokenizer_, queue_);
  }
  return std::make_unique<LoopDrafter>(scenario_, zone, ahead_tokens, *tokenizer_, queue_,
                                       std::move(device));
}

size_t FleetMachines::AddVerifierSlot(int zone) {
  auto addresses = std::make_shared<std::vector<std::string>>(*addresses_);
  addresses->push_back(NameOf(verifiers_.size()));
  addresses_ = std::move(addresses);
  verifiers_.push_back({.zone = zone});
  ++changes_;
  for (size_t slot = 0; slot < drafters_.size(); ++slot) {
    if (drafters_[slot].subset == nullptr) continue;
    drafters_[slot].subset->SetAddresses(addresses_);
    AdvanceSubset(slot, drafters_[slot].node);
  }
  return verifiers_.size() - 1;
}

size_t FleetMachines::AddDrafterSlot(int zone) {
  drafters_.push_back({.zone = zone});
  return drafters_.size() - 1;
}

FleetVerifier* FleetMachines::StartVerifier(size_t slot) {
  VerifierSlot& place = verifiers_[slot];
  const auto device = std::make_shared<SimulatedDevice>();
  all_verifiers_.push_back(MakeVerifier(place.zone, device));
  ++changes_;
  FleetVerifier* const before = std::exchange(place.node, all_verifiers_.back().get());
  if (layout_ == FleetLayout::kColocated) StartInside(place, device);
  for (size_t i = 0; i < drafters_.size(); ++i) {
    const DrafterSlot& drafter = drafters_[i];
    if (drafter.node == nullptr) continue;
    if (drafter.subset != nullptr && !drafter.subset->holds(VerifierName(slot))) continue;
    // Drafters that found nobody dial after a random part of a bound that has grown meanwhile.
    const double down =
        place.down_since.has_value() ? Seconds(queue_->now() - *place.down_since) : 0;
    const double pause = random_.Uniform() * std::min(down, kLongestBackoff);
    queue_->After(FromSeconds(pause),
                  [this, i, slot, node = drafter.node] { DialAgain(i, node, slot); });
  }
  place.down_since.reset();
  return before;
}

void FleetMachines::StartInside(const VerifierSlot& slot, std::shared_ptr<SimulatedDevice> device) {
  // By default such a drafter does not look ahead (--draft-ahead-tokens), which would take the
  // verifier's time. Passes take turns. If a step went first each time, a draft would wait for one
  // at each depth and always be late; on a GPU, kernels of a small pass get in between those of a
  // large one.
  slot.node->set_yields();
  all_inside_.push_back({.verifier = slot.node,
                         .drafter = MakeDrafter(slot.zone, /*ahead_tokens=*/0, std::move(device))});
  Dial(slot.node, all_inside_.back().drafter.get(), /*is_remote=*/false);
}

FleetDrafter* FleetMachines::StartDrafter(size_t slot) {
  DrafterSlot& place = drafters_[slot];
  all_drafters_.push_back(
      MakeDrafter(place.zone, scenario_.drafter.ahead_tokens, std::make_shared<SimulatedDevice>()));
  FleetDrafter* const before = std::exchange(place.node, all_drafters_.back().get());
  if (scenario_.drafter.subset > 0) {
    BeginSubset(slot);
    return before;
  }
  for (const VerifierSlot& verifier : verifiers_) {
    if (verifier.node != nullptr) Dial(verifier.node, place.node, /*is_remote=*/true);
  }
  return before;
}

FleetVerifier* FleetMachines::DetachVerifier(size_t slot) {
  ++changes_;
  verifiers_[slot].down_since = queue_->now();
  return std::exchange(verifiers_[slot].node, nullptr);
}

void FleetMachines::BeginSubset(size_t slot) {
  DrafterSlot& place = drafters_[slot];
  place.subset =
      std::make_unique<VerifierSubset>(SubsetOptions{.drafter = "drafter-" + std::to_string(slot),
                                                     .size = scenario_.drafter.subset,
                                                     .zone = std::to_string(place.zone)},
                                       queue_->now());
  place.subset->SetAddresses(addresses_);
  AdvanceSubset(slot, place.node);
}

void FleetMachines::AdvanceSubset(size_t slot, const FleetDrafter* drafter) {
  DrafterSlot& place = drafters_[slot];
  if (place.node != drafter || drafter == nullptr) return;
  for (const SubsetChange& change : place.subset->Advance(queue_->now())) Carry(slot, change);
  const Time due = place.subset->next();
  if (due == Time::max()) return;
  queue_->At(std::max(due, queue_->now() + kLeastPause), [this, slot, drafter, due] {
    const DrafterSlot& then = drafters_[slot];
    // Another call has advanced it since, and scheduled the next.
    if (then.node == drafter && then.subset->next() == due) AdvanceSubset(slot, drafter);
  });
}

void FleetMachines::Carry(size_t slot, const SubsetChange& change) {
  const size_t verifier_slot = SlotOf(change.address);
  FleetDrafter* const drafter = drafters_[slot].node;
  switch (change.kind) {
    case SubsetChange::Kind::kAttach:
      if (verifiers_[verifier_slot].node != nullptr) AttachOfSubset(slot, verifier_slot);
      return;
    case SubsetChange::Kind::kLeave: {
      bool is_leaving = false;
      for (const auto& connection : connections_) {
        if (connection->drafter() != drafter || !connection->is_open()) continue;
        if (connection->verifier() != verifiers_[verifier_slot].node) continue;
        connection->Leave();
        is_leaving = true;
      }
      if (!is_leaving) drafters_[slot].subset->OnLeft(change.address);
      return;
    }
    case SubsetChange::Kind::kVisit: Visit(slot, verifier_slot);
  }
}

void FleetMachines::Visit(size_t slot, size_t verifier_slot) {
  FleetDrafter* const drafter = drafters_[slot].node;
  const int here = drafters_[slot].zone;
  const int there = verifiers_[verifier_slot].zone;
  Time last{};
  // TCP's handshake, then the hello.
  const Time syn = network_.Arrival(here, there, queue_->now(), &last);
  const Time hello =
      network_.Arrival(here, there, network_.Arrival(there, here, syn, &last), &last);
  const auto answer = [this, slot, drafter, here, there, name = VerifierName(verifier_slot)](
                          Time sent, const std::optional<DrafterDemand>& demand) {
    Time back{};
    queue_->At(network_.Arrival(there, here, sent, &back),
               [this, slot, drafter, there, name, demand] {
                 if (drafters_[slot].node != drafter) return;
                 VerifierSubset& subset = *drafters_[slot].subset;
                 if (demand.has_value()) {
                   subset.OnVisited(name, std::to_string(there), demand, queue_->now());
                 } else {
                   subset.OnFailed(name, queue_->now());
                 }
                 AdvanceSubset(slot, drafter);
               });
  };
  queue_->At(hello, [this, verifier_slot, drafter, answer] {
    FleetVerifier* const verifier = verifiers_[verifier_slot].node;
    if (verifier == nullptr) return answer(queue_->now(), std::nullopt);
    verifier->Post([verifier, drafter, answer, id = next_connection_++] {
      answer(verifier->clock().Now(), AskDemand(id, *drafter, &verifier->pool()));
    });
  });
}

void FleetMachines::TellDemands() {
  for (const VerifierSlot& slot : verifiers_) {
    if (slot.node == nullptr) continue;
    slot.node->Post([node = slot.node] { node->pool().roster().TellDemand(node->load()); });
  }
  queue_->After(kDemandPeriod, [this] { TellDemands(); });
}

void FleetMachines::ShareDrafters() {
  // One more of each verifier's, so that those without any get their part of what is idle.
  const auto weight = [](const FleetConnection& c) { return c.verifier()->load().running + 1.0; };
  std::unordered_map<const FleetDrafter*, double> of_drafter;
  for (const auto& connection : connections_) {
    if (connection->is_open()) of_drafter[connection->drafter()] += weight(*connection);
  }
  std::unordered_map<FleetVerifier*, double> shares;
  for (const auto& connection : connections_) {
    if (!connection->is_open()) continue;
    const FleetDrafter* const drafter = connection->drafter();
    shares[connection->verifier()] +=
        weight(*connection) / of_drafter.at(drafter) / drafter->slowness();
  }
  for (const auto& verifier : all_verifiers_) {
    const auto found = shares.find(verifier.get());
    if (verifier->alive()) verifier->SetDrafters(found == shares.end() ? 0 : found->second);
  }
  queue_->After(kSharePeriod, [this] { ShareDrafters(); });
}

void FleetMachines::AttachOfSubset(size_t slot, size_t verifier_slot) {
  DrafterSlot& place = drafters_[slot];
  const VerifierSlot& verifier = verifiers_[verifier_slot];
  const auto connection = Connect(verifier.node, place.node, /*is_remote=*/true);
  connection->set_on_demand(
      [this, slot, verifier_slot, drafter = place.node](const DrafterDemand& demand) {
        if (drafters_[slot].node != drafter) return;
        drafters_[slot].subset->OnDemand(VerifierName(verifier_slot), demand);
      });
  connection->Dial([this, slot, verifier_slot, drafter = place.node] {
    OnStreamOfSubsetEnded(slot, drafter, verifier_slot);
  });
  place.subset->OnAttached(VerifierName(verifier_slot), std::to_string(verifier.zone));
}

void FleetMachines::OnStreamOfSubsetEnded(size_t slot, const FleetDrafter* drafter,
                                          size_t verifier_slot) {
  DrafterSlot& place = drafters_[slot];
  if (place.node != drafter) return;
  const std::string name = VerifierName(verifier_slot);
  if (place.subset->holds(name)) {
    place.subset->OnDetached(name, queue_->now());
  } else {
    place.subset->OnLeft(name);
  }
  queue_->At(queue_->now(), [this, slot, drafter] { AdvanceSubset(slot, drafter); });
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
  verifier->FailAll();
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

std::shared_ptr<FleetConnection> FleetMachines::Connect(FleetVerifier* verifier,
                                                        FleetDrafter* drafter, bool is_remote) {
  connections_.push_back(std::make_shared<FleetConnection>(
      next_connection_++, verifier, drafter, queue_, is_remote ? &network_ : nullptr));
  return connections_.back();
}

void FleetMachines::Dial(FleetVerifier* verifier, FleetDrafter* drafter, bool is_remote) {
  Connect(verifier, drafter, is_remote)->Dial([] {});
}

void FleetMachines::BreakStreams(int zone_a, int zone_b, Time until) {
  const int low = std::min(zone_a, zone_b);
  const int high = std::max(zone_a, zone_b);
  const auto crosses = [&](const FleetConnection& connection) {
    const int a = connection.verifier()->zone();
    const int b = connection.drafter()->zone();
    return std::min(a, b) <= low && std::max(a, b) >= high;
  };
  for (const auto& connection : connections_) {
    if (!connection->is_open() || !crosses(*connection)) continue;
    connection->Break(StreamEnd::kGone);
    for (size_t slot = 0; slot < drafters_.size(); ++slot) {
      if (drafters_[slot].node != connection->drafter()) continue;
      for (size_t place = 0; place < verifiers_.size(); ++place) {
        if (verifiers_[place].node != connection->verifier()) continue;
        const double pause = random_.Uniform() * kLongestBackoff;
        queue_->At(until + FromSeconds(pause), [this, slot, drafter = connection->drafter(),
                                                place] { DialAgain(slot, drafter, place); });
      }
    }
  }
}

FleetMachines::Usage FleetMachines::usage() const {
  Usage usage;
  for (const auto& verifier : all_verifiers_) {
    usage.verifier_busy += verifier->busy_seconds();
    usage.verifier_alive += verifier->alive_seconds();
    usage.drafter_busy += verifier->drafter_seconds();
    usage.plan_seconds += verifier->plan_seconds();
    usage.passes.Add(verifier->pass_sums());
  }
  for (const auto& drafter : all_drafters_) {
    usage.drafter_busy += drafter->busy_seconds();
    usage.drafter_alive += drafter->alive_seconds();
    usage.plan_seconds += drafter->plan_seconds();
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
