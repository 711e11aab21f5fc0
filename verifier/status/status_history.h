// The last two minutes of a verifier, second by second, the last hour, half a minute by half a
// minute, and their JSON for the status page. Pure: samples in, JSON out.
//
// It contains nothing of a prompt or a text, nor a client's name.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/metrics.h"
#include "verifier/pool/drafter_roster.h"

namespace outrider {

// The verifier's state at one moment, with counters as they are.
struct StatusSample {
  Time time;
  int running = 0;
  int waiting = 0;
  double kv_requests = 0;  // share of the pages that requests hold
  double tokens = 0;
  // Requests that finished, that were cancelled or failed, and that were refused before they
  // waited.
  double finished = 0, failed = 0, refused = 0;
  // First tokens, and tokens after a request's first: how many, and the sum of their times.
  double first_tokens = 0, first_token_seconds = 0;
  double next_tokens = 0, next_token_seconds = 0;
  double drafts = 0;                 // rounds with a draft
  double drafted = 0, accepted = 0;  // draft tokens
  double steps = 0, step_seconds = 0;
  double rows = 0;  // of all steps
  // The time of rounds, and the time that plain decoding would have taken for them.
  double round_seconds = 0, round_seconds_if_plain = 0;
  std::vector<double> accepted_per_position;
  struct Arm {
    double rounds = 0, tokens = 0, seconds = 0;
    double expected = 0;  // tokens per second, a gauge
  };
  std::vector<Arm> arms;
};

// A kind of fault and its count since the start.
struct StatusFault {
  std::string what;
  double count = 0;
};

// The latest state in full.
struct StatusNow {
  EngineSnapshot engine;
  std::vector<DrafterSnapshot> drafters;
  std::vector<StatusFault> faults;
};

StatusSample SampleOf(Time time, const EngineSnapshot& engine, const VerifierMetrics& metrics);
std::vector<StatusFault> FaultsOf(const VerifierMetrics& metrics);

// Thread: not synchronised (status_board.h locks).
class StatusHistory {
 public:
  struct Served {
    std::string model;
    std::string version;
    std::string policy;
    std::vector<std::string> arms;  // in the metrics' order
    int port = 0;                   // of the gRPC server
  };

  StatusHistory(Served served, Time started);

  // Adds a second's sample, and replaces the latest state. REQUIRES: samples come in order of time,
  // with as many arms as `served` has.
  void Add(StatusSample sample, StatusNow now);
  // The object that /status.json answers and the status page draws (status_page.h).
  std::string ToJson(Time now) const;

 private:
  const Served served_;
  const Time started_;
  std::deque<StatusSample> samples_;  // of the last two minutes
  std::deque<StatusSample> hour_;     // some of the last hour's
  StatusNow now_;
};

}  // namespace outrider
