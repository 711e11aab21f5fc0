// The scenario of `outrider simulate fleet`: machines, network, requests and what happens to them.
// docs/fleet.md has an example.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "simulate/fleet/distribution.h"
#include "simulate/fleet/paced_model.h"

namespace outrider {

// Zones are in a line: from one to the next but one is twice as far as to the next.
struct FleetZone {
  int verifiers = 0;
  int drafters = 0;
};

struct FleetNetworkScenario {
  Distribution within_ms = Distribution::Constant(0.1);   // one way, in a zone
  Distribution between_ms = Distribution::Constant(0.5);  // and from a zone to the next
  double loss = 0;             // probability that a message is sent again
  double retransmit_ms = 200;  // which takes so long; TCP's least timeout on Linux
};

struct FleetVerifierScenario {
  PassCost cost;
  int sessions = 64;
  int waiting = 1024;
  int kv_tokens = 1 << 18;
  int token_budget = 512;
  double price = 0;  // an hour
};

struct FleetDrafterScenario {
  PassCost cost;
  int sessions = 256;
  int kv_tokens = 1 << 18;
  int ahead_tokens = 32;
  int subset = 0;    // verifiers that each serves; 0: all
  double price = 0;  // an hour
};

struct FleetClass {
  double share = 1;  // of the requests, relative to the other classes
  double acceptance = 0.8;
  Distribution prompt_tokens = Distribution::Constant(128);
  Distribution output_tokens = Distribution::Constant(128);
  // Prompts begin with one of so many prefixes of so many tokens. 0: no two begin alike.
  int prefixes = 0;
  int prefix_tokens = 0;
};

struct TracedRequest {
  double at = 0;  // seconds
  int prompt_tokens = 0;
  int output_tokens = 0;
  int request_class = 0;
};

// One of: Poisson arrivals, a trace, or clients that each have one request at a time.
struct FleetArrivals {
  double rate = 0;   // requests a second, on average
  double swing = 0;  // the rate is rate * (1 + swing * sin(2 pi t / day))
  double day = 86400;
  std::vector<TracedRequest> trace;
  int clients = 0;
  Distribution pause = Distribution::Constant(0);  // of a client between two requests, seconds
};

struct FleetEvent {
  enum class Kind {
    kKillDrafters,
    kKillVerifiers,
    kSlowDrafters,
    kSlowVerifiers,
    kPartition,
    kUpdateDrafters,
    kUpdateVerifiers,
  };
  Kind kind = Kind::kKillDrafters;
  double at = 0;  // seconds
  int count = 1;  // machines; of an update: at once
  // Seconds from the end of a process to its successor's first dial; unset: it has none.
  std::optional<double> restart = {};
  double factor = 1;  // of a slow machine's passes
  double lasts = 0;   // seconds
  std::array<int, 2> zones = {0, 0};
  bool surge = false;  // an update starts the successor before it ends the process
  double drain = 30;   // seconds that an update of verifiers waits for running requests
};

struct FleetScaling {
  int least = 1;
  int most = 1;
  double busy = 0.6;  // wanted share of time in passes
  // For drafters, instead of `busy` if above 0: the plans that each should have at hand on average.
  double plans = 0;
};

struct FleetAutoscaler {
  double every = 15;  // seconds between decisions
  double lag = 60;    // seconds from a decision to the new process's first dial
  // Seconds for which the most that was wanted is kept, as HorizontalPodAutoscaler's
  // stabilizationWindowSeconds of scaleDown.
  double stabilization = 300;
  std::optional<FleetScaling> verifiers;
  std::optional<FleetScaling> drafters;
};

enum class FleetRouting {
  kRoundRobin,  // each client of FleetArrivals::clients stays with one verifier
  kPrefix,      // common/routing/prefix_router.h
};

enum class FleetLayout { kSplit, kColocated, kPlain };
inline constexpr size_t kFleetLayouts = 3;
const char* LayoutName(FleetLayout layout);

struct FleetScenario {
  double seconds = 60;
  double warm_up = 10;  // seconds that do not count
  double interval = 5;  // of the timeline
  std::vector<FleetZone> zones;
  FleetNetworkScenario network;
  FleetVerifierScenario verifier;
  FleetDrafterScenario drafter;
  std::string policy = "adaptive";
  int draft_length = 4;  // under "fixed"
  std::vector<FleetClass> classes;
  FleetArrivals arrivals;
  FleetRouting routing = FleetRouting::kRoundRobin;
  std::vector<FleetEvent> events;
  std::optional<FleetAutoscaler> autoscaler;
  // Names what the rates of requests depend on: the same for scenarios that differ only in the
  // number of machines and requests, in time, prices and events.
  std::string rate_key;

  int verifiers() const;
  int drafters() const;
};

// Limits of a run, by rates or with every round.
inline constexpr int kMaxFleetVerifiers = 2000;
inline constexpr int kMaxFleetDrafters = 10000;
inline constexpr int kMaxRoundVerifiers = 20;
inline constexpr int kMaxRoundDrafters = 100;
// kInvalidArgument: it is too large for a run in which every round is simulated.
Status CheckRoundLimits(const FleetScenario& scenario);

// kInvalidArgument names the member that is invalid, missing or unknown. A trace is a path relative
// to `folder`, with the lines "seconds,prompt_tokens,output_tokens[,class]".
Result<FleetScenario> ParseFleetScenario(std::string_view json, const std::string& folder);

}  // namespace outrider
