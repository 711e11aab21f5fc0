// Tracks which drafter holds which session, its last plan there, and what has arrived of the draft.
//
// Only this class knows who holds what: it counts each drafter's sessions, while the engine's
// DraftingState only knows whether its next plan has to open the session.
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

// A session at the drafter that holds it.
struct Assignment {
  // With more tokens than this to read before a draft, a drafter's time is not its usual one. It is
  // no more than a few verdicts bring.
  static constexpr int kManyTokens = 16;

  // A plan whose draft was incomplete when the next one was sent.
  struct Overdue {
    uint32_t round = 0;  // 0: none
    Time sent;
  };

  // The last plan sent, and what has arrived of its draft.
  struct Asked {
    DraftPlan plan;
    Time sent;
    bool late = false;  // its deadline has passed
    DraftTree draft = {};
    bool complete = false;  // no more parts will come
    int parts = 0;          // arrived so far
    // The end of the previous round, if a draft that was sent early for that end answers the plan.
    std::optional<RoundEnd> after = {};
    int early_to_come = 0;  // early drafts still possible for this plan
  };

  // A whole draft for the next plan, in case its round ends like this.
  struct Early {
    RoundEnd end;
    DraftTree draft;
  };

  const uint64_t drafter = 0;
  int tokens = 0;  // those that the drafter knows
  Asked asked;
  std::vector<Early> early = {};
  Time opened;
  bool trial = false;          // opened at a suspended drafter
  bool awaited_trial = false;  // its drafts are waited for until one is late
  double worth = 0;            // the draft's, as told to DraftSource::SetTimeout; seconds
  Overdue overdue;
  DraftKind kind = DraftKind::kSampled;
  int late_in_a_row = 0;                  // late drafts in a row
  double last_seconds = kUnknownSeconds;  // of its last whole draft, as the drafter reports
  double last_round_trip = 0;             // from its plan to its arrival
  bool fresh = true;                      // no whole draft has arrived yet
  bool reads = true;  // the drafter reads many tokens before this draft (kManyTokens)

  // Parts that may still arrive for the last plan. Each has at least one depth, or is a refusal. A
  // plan that was answered early may be refused all the same.
  uint64_t PartsToCome() const;
  // Early drafts that may still arrive for the last plan and the next.
  uint64_t EarlyToCome() const;
  // Whether TakePart or TakeEarly takes the part. Otherwise it belongs to an older plan or to none.
  bool Expects(const DraftPart& part) const;
  // Adds a part to the draft of the last plan. kInvalidArgument: it does not fit that plan, or is
  // not a draft of a model with `vocab_size` tokens.
  Status TakePart(DraftChunk part, int vocab_size);
  // Keeps an early draft for the next plan, uses it as the last plan's draft, or drops it as
  // useless. kInvalidArgument: as in TakePart, or there are too many. REQUIRES: Expects(part).
  Status TakeEarly(DraftPart part, int vocab_size);
  // The next plan is sent with `decision`, which accepts `accepted` tokens of the last draft. Its
  // draft may already have arrived: asked.complete.
  void BeginRound(const SessionVerdict& decision, int accepted, Time now);

 private:
  // Whether `draft` is a valid answer to the last plan.
  Status CheckDraft(const DraftTree& draft, int vocab_size) const;
};

class Assignments {
 public:
  // REQUIRES: no drafter holds the session.
  void Add(uint64_t session, Assignment assignment);
  // Returns nullptr if no drafter holds it.
  Assignment* Find(uint64_t session);
  const Assignment* Find(uint64_t session) const;
  // Removes the session from its drafter. REQUIRES: one holds it.
  void Remove(uint64_t session);
  // Removes all sessions of the drafter and returns them in ascending order.
  std::vector<uint64_t> RemoveAllOf(uint64_t drafter);

  // The number of sessions that the drafter holds.
  int CountOf(uint64_t drafter) const;
  // The drafter's sessions, in ascending order.
  std::vector<uint64_t> SessionsOf(uint64_t drafter) const;

 private:
  std::map<uint64_t, Assignment> assignments_;               // by session
  std::map<uint64_t, std::set<uint64_t>> drafter_sessions_;  // by drafter; none is empty
};

}  // namespace outrider
