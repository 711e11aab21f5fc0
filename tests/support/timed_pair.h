// A verifier and a drafter with real models on simulated clocks: production engine, controller,
// pool and drafting loop, and the texts and drafts that the models really make, but passes and
// messages take the time that they are given. So what a plan costs is exact and repeats, whatever
// else the machine does.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/model/model.h"
#include "common/text/tokenizer.h"
#include "drafter/propose/draft_loop.h"
#include "simulate/fleet/event_queue.h"
#include "simulate/fleet/node.h"
#include "simulate/fleet/paced_model.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/request.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider::testing {

struct TimedPairOptions {
  EngineOptions engine;  // the planner's passes are set from target_cost
  DraftLoopOptions drafter;
  PassCost target_cost;
  PassCost drafter_cost;
  double one_way = 0;  // seconds of a message between the two
  // Multiplies the time of each pass; empty: 1.
  std::function<double()> slowness = {};
};

class TimedPair {
 public:
  // All must outlive the pair.
  TimedPair(TimedPairOptions options, Model* target, Model* drafter, const Tokenizer* tokenizer);
  ~TimedPair();

  struct Answer {
    Summary summary;  // its times are simulated
    std::vector<TokenId> tokens;
  };
  // Runs the requests, `concurrency` at once, each as soon as one before it ends.
  std::vector<Answer> Run(std::vector<GenerationRequest> requests, int concurrency);

 private:
  class Verifier;
  class Drafter;
  class ToDrafter;
  class ToVerifier;

  EventQueue queue_;
  std::unique_ptr<Verifier> verifier_;
  std::unique_ptr<Drafter> drafter_;
  uint64_t last_id_ = 0;
};

}  // namespace outrider::testing
