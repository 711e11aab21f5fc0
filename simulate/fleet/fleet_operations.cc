#include "simulate/fleet/fleet_operations.h"

#include <algorithm>
#include <cmath>

#include "common/rpc/keepalive.h"

namespace outrider {
namespace {

constexpr Duration kDrainPoll = std::chrono::milliseconds(100);

// Streams over a partition that lasts longer end: neither side answers the other's keepalive.
constexpr Duration kKeepalive =
    std::chrono::milliseconds(Keepalive().time_ms + Keepalive().timeout_ms);

// The slots in [first, end) that have a process.
std::vector<size_t> WithProcess(const auto& slots, size_t first, size_t end) {
  std::vector<size_t> running;
  for (size_t slot = first; slot < end; ++slot) {
    if (slots[slot].node != nullptr) running.push_back(slot);
  }
  return running;
}

}  // namespace

void FleetOperations::Start() {
  for (const FleetEvent& event : scenario_.events) {
    queue_->After(FromSeconds(event.at), [this, &event] { Run(event); });
  }
  if (scenario_.autoscaler.has_value()) {
    queue_->After(FromSeconds(scenario_.autoscaler->every), [this] { Scale(); });
  }
}

void FleetOperations::Run(const FleetEvent& event) {
  switch (event.kind) {
    case FleetEvent::Kind::kKillDrafters: return KillDrafters(event);
    case FleetEvent::Kind::kKillVerifiers: return KillVerifiers(event);
    case FleetEvent::Kind::kSlowDrafters: return Slow(event, /*is_verifiers=*/false);
    case FleetEvent::Kind::kSlowVerifiers: return Slow(event, /*is_verifiers=*/true);
    case FleetEvent::Kind::kPartition: return Partition(event);
    case FleetEvent::Kind::kUpdateDrafters: return UpdateDrafters(event, 0);
    case FleetEvent::Kind::kUpdateVerifiers: return UpdateVerifiers(event, 0);
  }
}

void FleetOperations::KillVerifiers(const FleetEvent& event) {
  int left = event.count;
  for (size_t slot = 0; slot < machines_->verifiers().size() && left > 0; ++slot) {
    FleetVerifier* const node = machines_->verifiers()[slot].node;
    if (node == nullptr) continue;
    --left;
    machines_->EndVerifier(node);
    if (!event.restart.has_value()) continue;
    queue_->After(FromSeconds(*event.restart), [this, slot] { machines_->StartVerifier(slot); });
  }
}

void FleetOperations::KillDrafters(const FleetEvent& event) {
  int left = event.count;
  for (size_t slot = 0; slot < machines_->drafters().size() && left > 0; ++slot) {
    FleetDrafter* const node = machines_->drafters()[slot].node;
    if (node == nullptr) continue;
    --left;
    machines_->EndDrafter(node);
    if (!event.restart.has_value()) continue;
    queue_->After(FromSeconds(*event.restart), [this, slot] { machines_->StartDrafter(slot); });
  }
}

void FleetOperations::Slow(const FleetEvent& event, bool is_verifiers) {
  std::vector<SimulatedNode*> nodes;
  if (is_verifiers) {
    for (const auto& slot : machines_->verifiers()) nodes.push_back(slot.node);
  } else {
    for (const auto& slot : machines_->drafters()) nodes.push_back(slot.node);
  }
  std::erase(nodes, nullptr);
  nodes.resize(std::min(nodes.size(), static_cast<size_t>(event.count)));
  for (SimulatedNode* const node : nodes) {
    node->set_slowness(event.factor);
    queue_->After(FromSeconds(event.lasts), [node] { node->set_slowness(1); });
  }
}

void FleetOperations::Partition(const FleetEvent& event) {
  const Time now = queue_->now();
  const Time until = now + FromSeconds(event.lasts);
  machines_->network().Partition(event.zones[0], event.zones[1], now, until);
  if (until - now <= kKeepalive) return;
  queue_->After(kKeepalive, [this, zones = event.zones, until] {
    machines_->BreakStreams(zones[0], zones[1], until);
  });
}

void FleetOperations::UpdateDrafters(const FleetEvent& event, size_t first) {
  const size_t slots = machines_->drafters().size();
  if (first >= slots) return;
  const size_t end = std::min(slots, first + static_cast<size_t>(event.count));
  const std::vector<size_t> updated = WithProcess(machines_->drafters(), first, end);
  for (const size_t slot : updated) {
    if (!event.surge) machines_->EndDrafter(machines_->drafters()[slot].node);
  }
  queue_->After(FromSeconds(event.restart.value_or(0)), [this, &event, updated, end] {
    for (const size_t slot : updated) {
      if (event.surge && machines_->drafters()[slot].node == nullptr) continue;  // killed meanwhile
      FleetDrafter* const before = machines_->StartDrafter(slot);
      if (before != nullptr) machines_->EndDrafter(before);
    }
    UpdateDrafters(event, end);
  });
}

void FleetOperations::UpdateVerifiers(const FleetEvent& event, size_t first) {
  const size_t slots = machines_->verifiers().size();
  if (first >= slots) return;
  const size_t end = std::min(slots, first + static_cast<size_t>(event.count));
  const Duration restart = FromSeconds(event.restart.value_or(0));
  const Duration drain = FromSeconds(event.drain);
  // Without surge the successor starts once the process has had its time to drain.
  const std::vector<size_t> updated = WithProcess(machines_->verifiers(), first, end);
  for (const size_t slot : updated) {
    if (!event.surge) DrainAndEnd(machines_->DetachVerifier(slot), queue_->now() + drain);
  }
  queue_->After(event.surge ? restart : drain + restart, [this, &event, updated, end, drain] {
    for (const size_t slot : updated) {
      if (event.surge && machines_->verifiers()[slot].node == nullptr) continue;
      FleetVerifier* const before = machines_->StartVerifier(slot);
      if (before != nullptr) DrainAndEnd(before, queue_->now() + drain);
    }
    if (!event.surge) return UpdateVerifiers(event, end);
    queue_->After(drain, [this, &event, end] { UpdateVerifiers(event, end); });
  });
}

void FleetOperations::DrainAndEnd(FleetVerifier* verifier, Time until) {
  verifier->Post([verifier] {
    verifier->Drain();
    verifier->pool().roster().Drain();
  });
  queue_->After(kDrainPoll, [this, verifier, until] {
    if (!verifier->alive()) return;
    if (verifier->idle() || queue_->now() >= until) {
      machines_->EndVerifier(verifier);
    } else {
      DrainAndEnd(verifier, until);
    }
  });
}

void FleetOperations::Scale() {
  const FleetAutoscaler& scaler = *scenario_.autoscaler;
  const FleetMachines::Usage usage = machines_->usage();
  if (scaler.verifiers.has_value()) ScaleVerifiers(*scaler.verifiers, usage);
  if (scaler.drafters.has_value() && !machines_->drafters().empty()) {
    ScaleDrafters(*scaler.drafters, usage);
  }
  queue_->After(FromSeconds(scaler.every), [this] { Scale(); });
}

// As Kubernetes' HorizontalPodAutoscaler, with its tolerance of a tenth.
int FleetOperations::Change(const FleetScaling& scaling, double target, int running, double load,
                            Scaled* scaled) {
  const double each = (load - scaled->load) / scenario_.autoscaler->every / target;
  scaled->load = load;
  const int current = running + scaled->coming - scaled->cancelled;
  int wanted = current;
  if (std::abs(each / std::max(current, 1) - 1) > 0.1) {
    wanted = std::clamp(static_cast<int>(std::ceil(each)), scaling.least, scaling.most);
  }
  const Time now = queue_->now();
  std::deque<std::pair<Time, int>>& lately = scaled->wanted;
  if (lately.empty()) lately.push_back({now, current});
  lately.push_back({now, wanted});
  const Time oldest = now - FromSeconds(scenario_.autoscaler->stabilization);
  while (lately.front().first < oldest) lately.pop_front();
  if (wanted >= current) return wanted - current;
  int most = 0;
  for (const auto& [at, count] : lately) most = std::max(most, count);
  return std::min(current, most) - current;
}

void FleetOperations::Add(int count, Scaled* scaled, const std::function<void()>& start) {
  for (; count > 0; --count) {
    if (scaled->cancelled > 0) {
      --scaled->cancelled;
      continue;
    }
    ++scaled->coming;
    queue_->After(FromSeconds(scenario_.autoscaler->lag), [scaled, start] {
      --scaled->coming;
      if (scaled->cancelled == 0) return start();
      --scaled->cancelled;
    });
  }
}

int FleetOperations::Cancel(int count, Scaled* scaled) {
  const int cancelled = std::clamp(count, 0, scaled->coming - scaled->cancelled);
  scaled->cancelled += cancelled;
  return count - cancelled;
}

void FleetOperations::ScaleVerifiers(const FleetScaling& scaling,
                                     const FleetMachines::Usage& usage) {
  const int change = Change(scaling, scaling.busy, machines_->running_verifiers(),
                            usage.verifier_busy, &scaled_verifiers_);
  Add(change, &scaled_verifiers_, [this] {
    const auto turn = machines_->verifiers().size() % scenario_.zones.size();
    machines_->StartVerifier(machines_->AddVerifierSlot(static_cast<int>(turn)));
  });
  int ends = Cancel(-change, &scaled_verifiers_);
  for (size_t slot = machines_->verifiers().size(); slot-- > 0 && ends > 0;) {
    if (machines_->verifiers()[slot].node == nullptr) continue;
    --ends;
    DrainAndEnd(machines_->DetachVerifier(slot), queue_->now() + std::chrono::seconds(30));
  }
}

void FleetOperations::ScaleDrafters(const FleetScaling& scaling,
                                    const FleetMachines::Usage& usage) {
  const bool by_plans = scaling.plans > 0;
  const int change =
      Change(scaling, by_plans ? scaling.plans : scaling.busy, machines_->running_drafters(),
             by_plans ? usage.plan_seconds : usage.drafter_busy, &scaled_drafters_);
  Add(change, &scaled_drafters_, [this] {
    const auto turn = machines_->drafters().size() % scenario_.zones.size();
    machines_->StartDrafter(machines_->AddDrafterSlot(static_cast<int>(turn)));
  });
  int ends = Cancel(-change, &scaled_drafters_);
  for (size_t slot = machines_->drafters().size(); slot-- > 0 && ends > 0;) {
    FleetDrafter* const node = machines_->drafters()[slot].node;
    if (node == nullptr) continue;
    --ends;
    machines_->EndDrafter(node);
  }
}

}  // namespace outrider
