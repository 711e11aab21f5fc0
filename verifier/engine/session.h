// What the engine knows of one generation. The engine thread owns it; sessions live in the engine's
// table from Submit to their end.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/model/model.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"
#include "common/spec/warper.h"
#include "verifier/engine/draft_source.h"
#include "verifier/engine/output.h"
#include "verifier/engine/planner.h"
#include "verifier/engine/request.h"
#include "verifier/engine/session_trace.h"
#include "verifier/engine/sink.h"

namespace outrider {

// Where a session stands with its drafter. Valid transitions:
//   kUnattached -> kPlanned (Open) -> kArrived (OnDraft) -> kPlanned (next plan) ...
//   kPlanned -> kArrived (a part of the draft in time) or kResting (none) -> kPlanned (rested)
//   any -> kUnattached (drafter lost, or it refused)
//   any -> kOff (speculation is over for this session)
enum class DraftState {
  kOff,         // never: switched off, or nothing is left to draft
  kUnattached,  // no drafter holds the session
  kPlanned,     // a plan is under way
  kArrived,     // its draft is here, or the part of it that came in time
  kResting,     // the drafter holds the session, but no plan is under way
};

// A seeded request waits this much longer than others for its drafts, all of them together: its
// text must not depend on how fast the drafter happens to be, only on whether it is there.
inline constexpr Duration kSeededWait = std::chrono::seconds(2);

struct Session {
  uint64_t id = 0;
  GenerationRequest request;
  std::shared_ptr<GenerationSink> sink;

  std::vector<TokenId> tokens;  // prompt and output
  int prompt_tokens = 0;
  int max_new_tokens = 0;
  uint64_t seed = 0;
  SequenceId sequence = -1;  // -1: waits for pages
  int computed = 0;          // of `tokens`, those whose KV is held
  uint32_t round = 1;        // the round under way: every step that yields tokens ends one
  uint64_t served = 0;       // the step that served it last
  SpeculationPlan speculation;
  std::unique_ptr<Warper> warper;
  std::unique_ptr<OutputStream> output;

  DraftState draft_state = DraftState::kOff;
  std::unique_ptr<SessionPlanner> planner;  // nullptr: every round as `speculation` says
  Time round_begun;                         // when the round under way was chosen
  bool local_draft = false;                 // `draft` is no drafter's
  RoundPlan plan;                           // the last one sent
  Time plan_sent;
  Time waited_since;              // kPlanned: nothing else was to be computed before
  Time plan_deadline;             // kPlanned: when to go on with what has come
  Duration patience{};            // how long such a draft is waited for usually
  bool unawaited = false;         // the round does not wait for the draft of `plan`
  Duration seeded_wait{};         // what is left of kSeededWait
  DraftTree partial;              // kPlanned: what of the draft has come
  DraftTree draft;                // kArrived
  std::vector<TokenId> untold;    // tokens behind the last verdict told
  int untold_node = 0;            // of the draft of `plan`: the path to it stands, before `untold`
  int untold_accepted = 0;        // its depth
  std::string untold_acceptance;  // of that draft's nodes, as RoundDecision has it
  int missed = 0;                 // drafts in a row that were not whole in time
  uint32_t rest_until = 0;        // no plan before this round
  uint32_t asked_round = 0;       // the last that waited for a drafter

  bool was_admitted = false;
  Time submitted;
  Time admitted;
  Time first_token;
  Time last_token;
  // The end of the step that ended its last round, and PlainTime::prompt_seconds() then: where
  // the round under way begins to count. nullopt: before the first token, and after a preemption
  // until the text is computed again.
  struct Mark {
    Time at;
    double prompt_seconds = 0;
  };
  std::optional<Mark> decoding_since;
  Summary summary;
  std::unique_ptr<SessionTrace> trace;  // nullptr: not recorded

  int pending() const { return static_cast<int>(tokens.size()) - computed; }
  // All of its text is computed, so that `plan_deadline` holds.
  bool awaits_draft() const { return draft_state == DraftState::kPlanned && pending() <= 1; }
  int remaining() const {
    return max_new_tokens - (static_cast<int>(tokens.size()) - prompt_tokens);
  }
};

}  // namespace outrider
