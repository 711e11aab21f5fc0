// Picks every session's plan, round by round, and learns from the outcomes.
//
// How the engine calls it, all on its own thread:
//   start      controller = Controller::Create(options, arms); a few steps of several row counts,
//              or the first prompts, go to costs().ObserveStep
//   step       costs().ObserveStep(rows, context, seconds) for each, including prompt chunks
//   draft      costs().ObserveDraft by the arm, ObserveRoundTrip by its proposer
//   session    handle = controller->Open(pair, client_key): one for each generation
//   plan       choice = handle->Choose(context) when the plan goes out with a verdict
//   verdict    handle->Observe(outcome)
//   end        destroy the handle: a round without a verdict counts as aborted
//
// Nothing here blocks, reads a clock or draws random numbers that affect a session's tokens. A plan
// depends on earlier rounds alone, so the output's distribution does not change.
//
// Thread: one; no locks. Memory: at most max_tables policies, and those of open sessions.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "verifier/control/arm.h"
#include "verifier/control/cost_model.h"
#include "verifier/control/policy.h"

namespace outrider {

struct ControllerOptions {
  // "adaptive", "ucbspec", "exp3spec", "ucb-tuned", "fixed" (the first arm) or "fixed:NAME,..",
  // which takes the first of these that is allowed.
  std::string policy = "adaptive";
  bool shared = true;  // sessions of one pair and client key learn from each other
  // Pairs of model pair and client key, some 150 KiB each; the least recently used is dropped.
  int max_tables = 256;
  uint64_t seed = 0;  // of exp3spec's random choices
};

// "adaptive", "ucbspec", "exp3spec", "ucb-tuned", "fixed".
const std::vector<std::string>& PolicyNames();

// One generation's handle. Must not outlive its controller.
class ControlSession {
 public:
  explicit ControlSession(std::shared_ptr<Policy> policy);
  ~ControlSession();
  ControlSession(const ControlSession&) = delete;
  ControlSession& operator=(const ControlSession&) = delete;

  // Returns an allowed arm, or plain decoding. REQUIRES: !pending().
  Choice Choose(const Context& context);
  // The outcome of the pending choice. REQUIRES: pending().
  void Observe(const Outcome& outcome);
  // A plain round repeated the last choice, without Choose.
  void ObserveRepeated() { session_->ObserveRepeated(); }

  // Between Choose and Observe.
  bool pending() const { return pending_.has_value(); }
  // How often the arm has changed from one round to the next.
  int64_t switches() const { return switches_; }

 private:
  std::shared_ptr<Policy> policy_;
  std::unique_ptr<PolicySession> session_;
  std::optional<Choice> pending_;
  int last_arm_ = -1;
  int64_t switches_ = 0;
};

class Controller {
 public:
  // kInvalidArgument: ArmSet refuses the arms, or the policy or an arm it names is unknown.
  static Result<std::unique_ptr<Controller>> Create(ControllerOptions options,
                                                    std::vector<Arm> arms);

  std::unique_ptr<ControlSession> Open(std::string_view pair, std::string_view client_key);
  const ArmSet& arms() const { return arms_; }
  CostModel& costs() { return costs_; }
  const CostModel& costs() const { return costs_; }
  size_t tables() const { return recent_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;
  struct Table {
    Key key;
    std::shared_ptr<Policy> policy;
  };

  Controller(ControllerOptions options, ArmSet arms, std::vector<int> fixed_arms);
  std::shared_ptr<Policy> MakePolicy();

  const ControllerOptions options_;
  const ArmSet arms_;
  const std::vector<int> fixed_arms_;
  CostModel costs_;
  uint64_t policies_made_ = 0;
  std::list<Table> recent_;  // most recently opened first
  std::map<Key, std::list<Table>::iterator> tables_;
};

}  // namespace outrider
