// A drafter of a fleet that is simulated by rates: it holds sessions, reports its load and leaves
// as a drafting loop does, and answers each plan after the time that its passes take. Its drafts
// say nothing; verifiers' pools learn its speed from them.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <vector>

#include "simulate/fleet/fleet_nodes.h"

namespace outrider {

class RateDrafter final : public FleetDrafter, private LinkEvents {
 public:
  // `scenario` and `queue` must outlive it.
  RateDrafter(const FleetScenario& scenario, int zone, const Tokenizer& tokenizer,
              EventQueue* queue);

  LinkEvents& events() override { return *this; }

 protected:
  bool Step() override;
  std::optional<Time> NextDeadline() const override;

 private:
  struct Connection {
    std::shared_ptr<VerifierLink> link;
    std::set<uint64_t> sessions;
    bool wanted = true;
    std::optional<DrafterLoad> told;
  };
  // A draft under way.
  struct Draft {
    Time at;  // when it is done
    uint64_t connection = 0;
    uint64_t session = 0;
    uint32_t round = 0;
    int length = 0;
    double seconds = 0;
  };
  struct IsLater {
    bool operator()(const Draft& a, const Draft& b) const { return a.at > b.at; }
  };

  bool Push(LinkEvent event) override;
  void PushUrgent(LinkEvent event) override { (void)Push(std::move(event)); }
  void Open(uint64_t id, Connection* connection, const SessionOpening& opening);
  void Begin(uint64_t connection, uint64_t session, const DraftPlan& plan);
  void Send(const Draft& draft);
  // Tells verifiers the load, where it has changed, and leaves those that are not wanted.
  void TellLoads(Time now);
  void TellLoad(Connection* connection) const;

  const FleetScenario& scenario_;
  std::map<uint64_t, Connection> connections_;
  std::priority_queue<Draft, std::vector<Draft>, IsLater> drafts_;
  int sessions_ = 0;  // of all connections
  bool load_changed_ = false;
  Time next_load_{};  // when it may be told again
};

}  // namespace outrider
