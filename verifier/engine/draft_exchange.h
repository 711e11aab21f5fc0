// Plans each sequence's rounds and gets their drafts, from the verifier's own proposers or from a
// drafter through DraftSource. SessionPlanner weighs a draft's cost against its benefit,
// DraftingState tracks its progress.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/grammar/grammar_masks.h"
#include "verifier/engine/admission.h"
#include "verifier/engine/draft_source.h"
#include "verifier/engine/engine_observer.h"
#include "verifier/engine/metrics.h"
#include "verifier/engine/planner.h"
#include "verifier/engine/session.h"
#include "verifier/engine/step_pace.h"

namespace outrider {

class DraftExchange final : public DraftConsumer {
 public:
  // All must outlive it. `drafts` may be nullptr.
  struct Parts {
    SessionTable* sessions = nullptr;
    const Admission* admission = nullptr;
    const StepPace* pace = nullptr;
    EngineObservers* observers = nullptr;
    DraftSource* drafts = nullptr;
    const Clock* clock = nullptr;
    grammar::MaskScratch* mask_scratch = nullptr;
    int max_forced_tokens = 0;  // per round
  };

  // `planner`: chooses what each round drafts if the request leaves it open; without it, rounds
  // follow the request or the engine's defaults. `kv_tokens`: size of the whole KV cache. `metrics`
  // may be nullptr.
  DraftExchange(const Parts& parts, const std::optional<PlannerOptions>& planner, int kv_tokens,
                VerifierMetrics* metrics);

  DraftExchange(const DraftExchange&) = delete;
  DraftExchange& operator=(const DraftExchange&) = delete;

  // Opens a session before it is planned. Its request and resolved speculation are set.
  void Open(Session& session);
  // Plans the round of a session that was just admitted, unless a draft is already there to score.
  void PlanAdmitted(Session& session);
  // Chooses the session's next round, and asks a drafter if it needs one.
  void PlanNext(Session& session);
  // The deadline of the session's draft has passed. The round goes on with what has arrived.
  // REQUIRES: session.awaits_draft().
  void MarkLate(Session& session);
  // A round is over that scored a drafter's draft, and accepted `tokens` of it.
  void RecordAccepted(const Session& session, int tokens);
  // The session has ended.
  void Close(const Session& session);
  // Makes no more plans.
  void Drain() { draining_ = true; }
  bool draining() const { return draining_; }
  // Sends the messages that the calls before have gathered. Waits for drafts begin now.
  void Flush();
  // Records a forward pass, including the end of its rounds.
  void OnForward(const PlannedStep& step);

  // The name of the session's drafter; "" without one.
  std::string DrafterName(const Session& session) const;

  void OnDraft(uint64_t session, uint32_t round, const DraftTree& draft, bool complete) override;
  void OnDrafterLost(uint64_t session) override;
  void OnDrafterBack(uint64_t session) override;
  void OnRefused(uint64_t session) override;

 private:
  // Tokens of texts that the verifier's own proposers read in a step, some 0.4 us each. Others
  // wait meanwhile.
  static constexpr size_t kReadOfStep = 4096;

  Session* Find(uint64_t session) const;
  // The most draft tokens that the session's round may have.
  int DraftRoom(const Session& session) const;
  // The requested shape of the next draft, within the remaining output and room. Length 0: none
  // now.
  DraftShape NextShape(const Session& session) const;
  NextRound ChooseRound(Session& session);
  // If the session's grammar allows only one next token, drafts the tokens that it forces, without
  // a drafter. Returns whether it did.
  bool DraftForced(Session& session);
  // The part of the verifier's own draft that the session's grammar allows.
  DraftTree AllowedPart(const Session& session, DraftTree draft);
  // The acceptance head's threshold if the plan names none; 0: the drafter's own.
  float HeadThreshold(const Session& session) const;
  // Sends the plan of `shape` to a drafter.
  void SendPlan(Session& session, const DraftShape& shape, const StopRule& stop);
  // Asks how long to wait for the draft of this shape that the last plan named.
  DraftTimeout SetTimeout(const Session& session, const DraftShape& shape);

  const Parts parts_;
  std::optional<Planner> planner_;
  const int kv_tokens_;
  bool draining_ = false;
  size_t may_read_ = kReadOfStep;  // tokens
  std::vector<uint64_t> unsent_;   // sessions whose plans the next Flush sends
};

}  // namespace outrider
