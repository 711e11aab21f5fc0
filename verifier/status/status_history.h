// The last two minutes of a verifier, second by second, and what the status page shows of them.
// Pure: samples in, JSON out.
//
// Nothing of a prompt or a text is in it, nor a client's name.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/metrics.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

// What a verifier looks like at one moment; counters as they stand.
struct StatusSample {
  Time at;
  int running = 0;
  int waiting = 0;
  double kv_requests = 0;  // share of the pages that requests hold
  double tokens = 0;
  double drafts = 0;  // rounds with one
  double drafted = 0, accepted = 0;
  double steps = 0, step_seconds = 0, rows = 0;
  // What rounds took, and what plain decoding would have taken for them.
  double round_seconds = 0, round_seconds_if_plain = 0;
  std::vector<double> accepted_per_position;
  struct Arm {
    double rounds = 0, tokens = 0, seconds = 0, expected = 0;
  };
  std::vector<Arm> arms;
};

// Something that went wrong and how often, since the start.
struct StatusFault {
  std::string what;
  double count = 0;
};

// The newest moment, whole.
struct StatusNow {
  EngineSnapshot engine;
  std::vector<DrafterSnapshot> drafters;
  std::vector<StatusFault> faults;
};

StatusSample SampleOf(Time at, const EngineSnapshot& engine, const VerifierMetrics& metrics);
std::vector<StatusFault> FaultsOf(const VerifierMetrics& metrics);

class StatusHistory {
 public:
  struct Served {
    std::string model;
    std::string version;
    std::string policy;
    std::vector<std::string> arms;  // in the metrics' order
  };

  StatusHistory(Served served, Time started);

  void Add(StatusSample sample, StatusNow now);
  std::string ToJson(Time now) const;

 private:
  const Served served_;
  const Time started_;
  std::deque<StatusSample> samples_;
  StatusNow now_;
};

}  // namespace outrider
