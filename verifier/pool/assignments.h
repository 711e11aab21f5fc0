// Which drafter holds which session, its last plan there, and what has come of the draft.
//
// This is the one place that knows who holds what: how many sessions a drafter has is counted here,
// and the engine's DraftingState knows only whether its next plan has to open the session.
//
// Owner: DrafterPool. Thread: the engine thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/spec/draft_tree.h"
#include "common/spec/drafting.h"
#include "verifier/engine/draft_source.h"

namespace outrider {

// One session at the drafter that holds it.
struct Assignment {
  // A drafter that has more tokens than this to read before a draft shows little of its usual
  // time. No more than some verdicts bring.
  static constexpr int kManyTokens = 16;

  // A plan whose draft was not whole when the next one was sent.
  struct Overdue {
    uint32_t round = 0;  // 0: none
    Time sent;
  };

  // The last plan sent, and what has come of its draft.
  struct Asked {
    DraftPlan plan;
    Time sent;
    bool late = false;  // its deadline has passed
    DraftTree draft = {};
    bool complete = false;  // nothing more will come
    int parts = 0;          // that have come
    // How the round before ended, if a draft that was sent early for that end answers the plan.
    std::optional<RoundEnd> after = {};
    int early_to_come = 0;  // early drafts that may still come for the plan
  };

  // A whole draft for the plan after the last one, should its round end like this.
  struct Early {
    RoundEnd end;
    DraftTree draft;
  };

  const uint64_t drafter = 0;
  int tokens = 0;  // that the drafter has been told of
  Asked asked;
  std::vector<Early> early = {};
  Time opened;
  bool trial = false;          // opened at a suspended drafter
  bool awaited_trial = false;  // whose drafts are waited for until one is late
  double worth = 0;            // of the draft, as DraftSource::SetTimeout was told; seconds
  Overdue overdue;
  DraftKind kind = DraftKind::kSampled;
  int late_in_a_row = 0;                        // drafts that did not come in time
  double last_seconds = DraftTiming::kUnknown;  // of its last whole draft, as the drafter says
  bool fresh = true;                            // no whole draft has come yet
  bool reads = true;  // the drafter reads many tokens before this draft (kManyTokens)

  // Parts that may still come for the last plan: each holds a depth at least, or is a refusal.
  uint64_t PartsToCome() const;
  // Early drafts that may still come for the last plan and the next.
  uint64_t EarlyToCome() const;
  // Whether TakePart or TakeEarly takes the part; else it is of an older plan, or of none.
  bool Expects(const DraftPart& part) const;
  // Adds a part to the draft of the last plan. kInvalidArgument: it does not fit that plan, or no
  // draft of a model with `vocab_size` tokens.
  Status TakePart(DraftChunk part, int vocab_size);
  // An early draft: kept for the next plan, or the last plan's draft now, or of no use.
  // kInvalidArgument: as for TakePart, or there are too many. REQUIRES: Expects(part).
  Status TakeEarly(DraftPart part, int vocab_size);
  // The next plan is sent, with `decision`, which accepts `accepted` tokens of the last draft. Its
  // draft may be here already: asked.complete.
  void BeginRound(const SessionVerdict& decision, int accepted, Time now);

 private:
  // Whether the last plan may be answered so.
  Status CheckDraft(const DraftTree& draft, int vocab_size) const;
};

class Assignments {
 public:
  // REQUIRES: no drafter holds the session.
  void Add(uint64_t session, Assignment assignment);
  // nullptr: no drafter holds it.
  Assignment* Find(uint64_t session);
  const Assignment* Find(uint64_t session) const;
  // No drafter holds the session any more. REQUIRES: one did.
  void Remove(uint64_t session);
  // The same for all sessions of the drafter, which it returns in ascending order.
  std::vector<uint64_t> RemoveAllOf(uint64_t drafter);

  // How many sessions the drafter holds.
  int CountOf(uint64_t drafter) const;
  // Which, in ascending order.
  std::vector<uint64_t> SessionsOf(uint64_t drafter) const;

 private:
  std::map<uint64_t, Assignment> assignments_;               // by session
  std::map<uint64_t, std::set<uint64_t>> drafter_sessions_;  // by drafter; none is empty
};

}  // namespace outrider
