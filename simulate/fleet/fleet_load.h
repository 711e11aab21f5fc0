// The requests of a simulated fleet: when they come, which verifier gets them, and how they fare.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/routing/prefix_router.h"
#include "simulate/fleet/event_queue.h"
#include "simulate/fleet/fleet_figures.h"
#include "simulate/fleet/fleet_machines.h"

namespace outrider {

class FleetLoad final : private FleetListener {
 public:
  // All must outlive it.
  FleetLoad(const FleetScenario& scenario, uint64_t seed, EventQueue* queue,
            FleetMachines* machines, FleetFigures* figures);

  // Begins to send requests.
  void Start();
  // Forgets the requests under way. Nothing counts from now on.
  void Stop() { requests_.clear(); }
  // The verifier's process ends: its requests fail.
  void FailRequestsOf(const FleetVerifier* verifier);

 private:
  struct Request {
    int client = -1;  // of FleetArrivals::clients
    FleetVerifier* verifier = nullptr;
    int slot = -1;  // of FleetMachines::verifiers
    Time arrived;
    Time first_token;
    Time last_token;
    int tokens = 0;
    int first_tokens = 0;  // in the first chunk
    double longest_pause = 0;
  };

  void ScheduleNextArrival();
  void ScheduleNextTraced();
  // A request of a random class, with random lengths.
  void Arrive(int client);
  void Send(int client, int request_class, int prompt_tokens, int output_tokens);
  // The slot of a serving verifier; -1: none serves.
  int ChooseVerifier(int client, const std::vector<TokenId>& prompt);
  // Learns which slots serve, if that has changed.
  void FollowMachines();
  // Removes a request that has ended.
  Request Take(uint64_t id);
  // `shared`: of its tokens, those of one of the class's prefixes.
  std::vector<TokenId> MakePrompt(int request_class, int tokens, int shared, uint64_t id);
  void Submit(FleetRequest request);
  void OnTokens(double tokens, Time now) override;
  void OnChunk(uint64_t id, int tokens, Time now) override;
  void OnRest(uint64_t id, int tokens, Time now) override;
  void OnFinished(uint64_t id, const FleetDrafts& drafts) override;
  void OnFailed(uint64_t id) override;
  void OnRejected(uint64_t id);
  // What a request that has ended adds to the figures, if it counts.
  void Record(const Request& request, const FleetDrafts& drafts);
  // The client sends its next request.
  void Continue(int client, Time at);
  bool Counts(Time at) const { return at >= counts_from_; }
  bool IsOver(Time at) const { return at > start_ + FromSeconds(scenario_.seconds); }
  FleetInterval& IntervalOf(Time at);

  const FleetScenario& scenario_;
  EventQueue* const queue_;
  FleetMachines* const machines_;
  FleetFigures* const figures_;
  SimulatedRandom random_;
  const Time start_;
  const Time counts_from_;
  double shares_ = 0;  // of all classes
  uint64_t next_id_ = 1;
  size_t next_traced_ = 0;
  size_t next_verifier_ = 0;
  uint64_t followed_ = 0;     // the machines' changes that are known
  std::vector<int> serving_;  // slots
  PrefixRouter router_;
  std::map<uint64_t, Request> requests_;
};

}  // namespace outrider
