// Chooses how each round of a session is drafted: by a drafter, by a proposer without a model, or
// not at all. Between the engine, which knows sessions and time, and verifier/control, which knows
// arms.
//
// Exactness: a choice follows from earlier rounds alone, so it is lossless, with one exception: two
// requests with the same seed have the same random numbers, and a plan learned from the first would
// know those of the second. A sampled request whose client chose the seed is planned as asked or by
// default, never by what was learned, unless its rule is gumbel, where no plan changes the text.
//
// Thread: the engine's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/model/warm_up.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"
#include "common/spec/stop_rule.h"
#include "verifier/control/controller.h"
#include "verifier/engine/draft_source.h"
#include "verifier/engine/metrics.h"
#include "verifier/engine/request.h"
#include "verifier/engine/sink.h"
#include "verifier/propose/local_proposer.h"
#include "verifier/propose/suffix_store.h"

namespace outrider {

struct PlannerOptions {
  ControllerOptions control;
  LocalProposerOptions local;
  SuffixStoreOptions store;
  int max_draft_length = 16;
  int max_paths = 8;
  // Of the model, before the first request: what rows cost. Without them the first steps are plain.
  std::vector<PassTime> passes;
};

// The arms of a server: plain decoding, a drafter with one, two and four sequences of several
// lengths, or with one until a stop rule ends it, prompt lookup and the suffix automaton behind
// shorter and longer matches.
std::vector<Arm> ServedArms(const PlannerOptions& options);

// What a round may be.
struct Situation {
  int remaining = 0;                   // tokens that the request may still emit
  int room = 0;                        // draft tokens that there is place for
  std::optional<DraftTiming> drafter;  // nullopt: none to be had now

  // Depths that a draft may have. The last token of a round is the target's own: a draft of all
  // that remains would waste one.
  int longest() const { return std::min(room, remaining - 1); }
};

struct NextRound {
  DraftShape shape;  // for a drafter; of length 0: not by one
  DraftTree draft;   // here at once; empty: none
  Rule rule = Rule::kBlock;
  StopRule stop = {};  // of `shape`
};

struct RoundOutcome {
  bool teaches = true;  // false: cut by an end
  int accepted = 0;
  int drafted = 0;  // depths that were scored
  int emitted = 0;
  double seconds = 0;  // NaN: not those of a round like others
};

class Planner;

// One session's.
class SessionPlanner {
 public:
  // Tokens that stand, in order; a long prompt in pieces.
  void Read(std::span<const TokenId> tokens);
  // Tokens read so far.
  size_t read() const { return read_; }

  // The next round, `tokens` standing (drafts of proposers without a model only if all were read).
  // REQUIRES: !pending().
  NextRound Choose(const Situation& situation, size_t tokens);
  // Between Choose and Conclude.
  bool pending() const { return round_.has_value(); }
  // Of the round that is pending; "" without one.
  std::string_view arm_name() const;
  // Who drafts it; kNone without one.
  Proposer::Kind proposer() const;
  // What became of it.
  void Conclude(const RoundOutcome& result);
  // A drafter's whole draft came, `total` after its plan was sent.
  void OnDrafted(const DraftTree& draft, double total, double drafting);
  // The text is complete.
  void Finish(std::span<const TokenId> output);

  // Adds what was chosen to a summary.
  void Summarize(Summary* summary) const;

 private:
  friend class Planner;
  SessionPlanner(Planner* planner, const GenerationRequest& request,
                 const ResolvedSpeculation& plan);

  // A round under way.
  struct Round {
    int arm = 0;
    std::optional<Choice> choice;  // nullopt: plain as the last ones, or a probe
  };

  // Plain decoding that was chosen stays chosen for some rounds, longer each time: where drafts do
  // not pay, choosing should cost nothing either.
  struct PlainRun {
    ArmMask among = 0;  // what it was chosen among
    int runs = 0;       // times in a row
    int left = 0;       // rounds that it still stays for
  };
  // Of arms.
  struct Switches {
    int64_t earlier = 0;  // of `control_`'s predecessors
    int64_t counted = 0;  // that metrics were told of
  };

  int64_t switches() const { return switches_.earlier + control_->switches(); }
  // A round of `arm`, with its draft if the proposer is the verifier's own.
  NextRound RoundOf(const Arm& arm, const Situation& situation);
  // Arms of the source's proposal, if it has one.
  ArmMask LocalArms(LocalSource source, int room);
  // What is learned of one drafter's model says nothing of another's, nor what is learned at
  // temperature 0 of sampled text.
  std::string Pair() const;
  void Follow(std::string_view model);
  // The arm to measure a drafter's time by, if that is this session's turn to do; a suspended
  // drafter's (`trial`) always is, because no round waits for it.
  std::optional<int> Probe(const Context& context, bool trial);
  // Arms that the situation allows, with what is known of their proposers.
  ArmMask Allowed(const Situation& situation, size_t tokens,
                  std::span<StreamEstimate, kMaxArms> streams);

  Planner* planner_;
  DraftKind kind_;
  std::optional<Rule> rule_;  // the request's own
  StopRule stop_;             // of arms that name none
  std::string client_;
  std::string model_;  // of the drafter that `control_` is for
  ArmMask possible_ = 0;
  std::unique_ptr<ControlSession> control_;
  LocalProposer local_;
  size_t read_ = 0;
  std::optional<Round> round_;
  PlainRun plain_;
  int probes_ = 0;           // rounds to come that a drafter's time is measured by
  std::vector<int> rounds_;  // by arm
  Switches switches_;
};

class Planner {
 public:
  // REQUIRES: the policy's name is one of PolicyNames(). `metrics` (nullptr: none) knows the arms.
  Planner(PlannerOptions options, VerifierMetrics* metrics);

  // nullptr: the request is drafted for as it asks, or its coins may be known (see above). It must
  // not outlive the planner.
  std::unique_ptr<SessionPlanner> Open(const GenerationRequest& request,
                                       const ResolvedSpeculation& plan);
  // A step of the engine: `rows` of `sessions` sessions over `context` tokens of KV.
  void OnStep(int sessions, int rows, int64_t context, double seconds);

  // The acceptance head's threshold where nobody names one: PayingThreshold of a depth, of which
  // drafting takes `depth_seconds` and scoring what a row costs here.
  float HeadThreshold(double tokens_per_second, double depth_seconds, double acceptance) const;

  const ArmSet& arms() const { return controller_->arms(); }
  const SuffixStore& store() const { return store_; }

 private:
  friend class SessionPlanner;

  PlannerOptions options_;
  VerifierMetrics* metrics_;
  bool learns_;  // what things cost
  int64_t steps_ = 0;
  double step_seconds_ = 0;            // of all steps
  std::optional<double> measured_at_;  // of them: when a drafter's time was last seen or sought
  std::unique_ptr<Controller> controller_;
  SuffixStore store_;
  double step_sessions_ = 1, step_context_ = 0;  // of late
};

}  // namespace outrider
