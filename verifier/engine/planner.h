// Chooses how each round of a session is drafted: by a drafter, by a proposer without a model, or
// not at all. It connects the engine, which knows sessions and time, and verifier/control, which
// knows arms.
//
// Exactness: a choice depends on earlier rounds alone, so it is lossless, with one exception: two
// requests with the same seed have the same random numbers, and a plan learned from the first would
// know those of the second. So a sampled request with a seed from the client is planned as asked or
// by default, never by what was learned, and neither reads nor fills the store of finished texts
// (suffix_store.h), unless its rule is gumbel, where drafts do not change the text.
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
#include "verifier/control/drafting_guard.h"
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
  int max_draft_tokens = 128;  // of a round
  int max_paths = 8;
  // The model's costs by rows, measured before the first request. Without them the first steps are
  // plain.
  std::vector<PassTime> passes;
};

// The arms of a server: plain decoding; a drafter with one, two and four sequences of several
// lengths, or with one sequence and a stop rule; prompt lookup and the suffix automaton, for
// shorter and longer matches.
std::vector<Arm> ServedArms(const PlannerOptions& options);

// The limits of a round.
struct Situation {
  int remaining = 0;                   // tokens that the request may still emit
  int room = 0;                        // the most draft tokens
  std::optional<DraftTiming> drafter;  // nullopt: none available now
  bool is_open = false;                // a drafter knows the session's text

  // The most depths of a draft. The last token of a round is the target's own, so a draft of all
  // that remains would waste one.
  int longest() const { return std::min(room, remaining - 1); }
};

struct NextRound {
  DraftShape shape;  // for a drafter; length 0: no drafter
  DraftTree draft;   // from the verifier's own proposers; empty: none
  Rule rule = Rule::kBlock;
  StopRule stop = {};  // of `shape`
};

struct RoundOutcome {
  bool teaches = true;  // false: it is not comparable with other rounds
  int accepted = 0;
  int drafted = 0;  // scored depths
  int emitted = 0;
  double seconds = 0;  // NaN: not comparable with other rounds
};

class Planner;

// The planner of one session.
class SessionPlanner {
 public:
  ~SessionPlanner();
  SessionPlanner(const SessionPlanner&) = delete;
  SessionPlanner& operator=(const SessionPlanner&) = delete;

  // Reads committed tokens, in order; a long prompt may come in pieces.
  void Read(std::span<const TokenId> tokens);
  // The number of tokens read so far.
  size_t read() const { return read_; }

  // Chooses the next round after `tokens` committed tokens. Proposers without a model only draft if
  // all of them were read. REQUIRES: !pending().
  NextRound Choose(const Situation& situation, size_t tokens);
  // Between Choose and Conclude.
  bool pending() const { return round_.has_value(); }
  // The pending round's arm; "" without one.
  std::string_view arm_name() const;
  // Who drafts the pending round; kNone without one.
  Proposer::Kind proposer() const;
  // The outcome of the pending round.
  void Conclude(RoundOutcome result);
  // A drafter's whole draft was taken, and had waited so many seconds for a step to end.
  void OnDraftComplete(double waited);
  // The same: it arrived `round_trip` seconds after its plan was sent, `drafting` of which the
  // drafter took to make it.
  void OnDrafted(const DraftTree& draft, double round_trip, double drafting);
  // The text is complete.
  void Finish(std::span<const TokenId> output);

  // Adds the choices to a summary.
  void Summarize(Summary* summary) const;

 private:
  friend class Planner;
  SessionPlanner(Planner* planner, const GenerationRequest& request,
                 const ResolvedSpeculation& plan);

  // The round under way.
  struct Round {
    int arm = 0;
    std::optional<Choice> choice;  // nullopt: repeats a plain choice, or is a probe
    // What Planner::prompt_seconds_ was before the prompts that have delayed the round.
    double prompt_seconds = 0;
  };

  // A choice of plain decoding holds for some rounds, longer each time, so that choosing costs
  // nothing where drafts do not pay.
  struct PlainRun {
    ArmMask among = 0;  // the arms it was chosen from
    int runs = 0;       // times in a row
    int left = 0;       // rounds for which it still holds
  };
  // How often the arm changed.
  struct Switches {
    int64_t earlier = 0;  // by predecessors of `control_`
    int64_t counted = 0;  // already in the metrics
  };

  // The same, whatever the guard says.
  NextRound ChooseArm(const Situation& situation, size_t tokens);
  // A round as `choice` has it, or of `arm` without one.
  void Begin(int arm, std::optional<Choice> choice);
  // Tells the guard, if this session has ever had a drafter.
  void Report(const RoundOutcome& result);
  int64_t switches() const { return switches_.earlier + control_->switches(); }
  // The round of `arm`, with its draft if the proposer is the verifier's own.
  NextRound RoundOf(const Arm& arm, const Situation& situation);
  // The arms that the proposal of `kind`, one without a model, allows; also fills in its length.
  ArmMask LocalArms(Proposer::Kind kind, int room, std::span<StreamEstimate, kMaxArms> streams);
  // The key of what is learned: one drafter's model tells nothing about another's, nor greedy text
  // about sampled text.
  std::string Pair() const;
  void Follow(std::string_view model);
  // The arm by which to measure a drafter's time, if it is this session's turn. For a suspended
  // drafter (`trial`) it always is, because no round waits for it.
  std::optional<int> Probe(const Context& context, bool trial);
  // The arms that the situation allows; also fills in what is known of their proposers.
  ArmMask Allowed(const Situation& situation, size_t tokens,
                  std::span<StreamEstimate, kMaxArms> streams);
  // Whether arms that name no stop rule have drafts of fixed length.
  bool has_fixed_length() const { return stop_.kind == StopRule::Kind::kLength; }

  Planner* planner_;
  DraftKind kind_;
  std::optional<Rule> rule_;  // the request's
  StopRule stop_;             // for arms that name none
  std::string client_;
  std::string model_;  // the drafter that `control_` is for
  ArmMask possible_ = 0;
  std::unique_ptr<ControlSession> control_;
  LocalProposer local_;
  size_t read_ = 0;
  std::optional<Round> round_;
  PlainRun plain_;
  size_t probes_ = 0;        // coming rounds that measure a drafter's time
  std::vector<int> rounds_;  // by arm
  Switches switches_;
};

// A step of the engine.
struct PlannedStep {
  int sessions = 0;
  int planned = 0;  // those of them whose round a SessionPlanner has chosen
  int rows = 0;
  int prompt_rows = 0;  // neither draft tokens nor the last token of a round's text
  int64_t context = 0;  // tokens of KV that it read
  double seconds = 0;
};

class Planner {
 public:
  // REQUIRES: the policy's name is one of PolicyNames(). `metrics` (may be nullptr) knows the arms.
  Planner(PlannerOptions options, VerifierMetrics* metrics);

  // Returns nullptr if the request is drafted for as it asks, or if its random numbers may be known
  // (see above). The result must not outlive the planner.
  std::unique_ptr<SessionPlanner> Open(const GenerationRequest& request,
                                       const ResolvedSpeculation& plan);
  // Records a step of the engine, before the rounds that it ends are concluded.
  void OnStep(const PlannedStep& step);

  // The acceptance head's default threshold: PayingThreshold of a depth for which drafting takes
  // `depth_seconds` and scoring takes the cost of a row here.
  float HeadThreshold(double tokens_per_second, double depth_seconds, double acceptance) const;

  const ArmSet& arms() const { return controller_->arms(); }

 private:
  friend class SessionPlanner;

  // How many sessions share a step with the rounds under way now, >= 1. Those that wait for drafts
  // count: while sessions take turns, a step has fewer rows, but each session waits for the steps
  // of the others.
  double StepSessions() const;

  PlannerOptions options_;
  VerifierMetrics* metrics_;
  bool learns_;  // it learns costs
  int64_t steps_ = 0;
  double step_seconds_ = 0;  // of all steps
  // in step seconds: when a drafter's time was last measured or sought
  std::optional<double> measured_at_;
  std::unique_ptr<Controller> controller_;
  SuffixStore store_;
  DraftingGuard guard_;
  int rounds_under_way_ = 0;   // chosen and not concluded
  double prompt_seconds_ = 0;  // the prompts' part of all steps
  // Recent means of a step: sessions without a planned round, and tokens of KV that it reads.
  double unplanned_ = 0, step_context_ = 0;
};

}  // namespace outrider
