// Drafts for every session of every verifier with one model. Each step gathers what the sessions
// need (prompts to read, verdicts to catch up with, the next depth of a draft) into one ragged
// forward pass, so that sessions at different depths share the reading of the weights.
//
// Verifiers share it fairly. Each is sure of an equal part of the sessions and has what is free
// beyond: a session of one that holds more gives way to one of a verifier that holds less than its
// part, and so with KV pages. In a forward pass they take turns, a session each.
//
// It owns the mirrors and, while it lives, the model. It holds no truth: a session that does not
// fit, or a verdict that makes no sense, is answered with a draft without tokens and forgotten; the
// verifier opens it again or does without.
//
// Thread: Push, PushUrgent and Stop: any. The rest: one owner thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/inbox.h"
#include "common/model/model.h"
#include "drafter/propose/ahead_gate.h"
#include "drafter/propose/draft_kv.h"
#include "drafter/propose/draft_session.h"
#include "drafter/propose/draft_trace.h"
#include "drafter/propose/head_recorder.h"
#include "drafter/propose/mirror.h"
#include "drafter/propose/verifier_link.h"
#include "drafter/propose/work_ahead.h"

namespace outrider {

struct DraftLoopOptions {
  int max_sessions = 256;  // of all verifiers
  int max_draft_length = 16;
  int max_draft_tokens = 128;  // draws of one plan; larger plans are refused
  int chunk_depths = 4;        // a draft is sent in parts of this many depths
  int ahead_tokens = 0;        // fed ahead of one verdict; 0: no working ahead
  int max_ahead_rows = 4;      // tokens of one forward pass made ahead: it may hold others up
  int max_context = 0;         // 0: the model's
  int tokenizer_vocab = 0;     // ids from here on do not exist (padded rows). 0: all of the model's
  int max_step_tokens = 256;   // of one forward pass
  int max_chunk_tokens = 128;  // of one session in it: a long prompt leaves room for drafts
  size_t inbox_capacity = 4096;
  const AcceptanceHead* head = nullptr;  // of the model, if there is one; outlives the loop
  // Of what a head is trained on, if that is wanted; outlives the loop.
  HeadRecorder* recorder = nullptr;
  Tracer* tracer = nullptr;  // of spans, where they are recorded; outlives the loop
};

// One forward pass, for metrics. Of several in one go each has the mean time, the first the bytes.
struct StepReport {
  int sessions = 0;        // that took part
  int rows = 0;            // tokens fed
  int drafted_tokens = 0;  // nodes: what was drawn twice counts once
  bool ahead = false;      // made ahead of verdicts
  // On a model's device: rows that were read there, and what came of them and all others.
  int device_rows = 0;
  int64_t device_bytes = 0;
  int broken_rows = 0;  // of those to be drawn from, NaN or infinite
  double seconds = 0;
  GraphCounts graphs;  // of the model, so far
};

// Told by the owner thread.
class DraftObserver {
 public:
  virtual ~DraftObserver() = default;
  virtual void OnStep(const StepReport& report) = 0;
  virtual void OnLoad(const DrafterLoad& load) = 0;
  // A draft was sent to its end, `seconds` after its plan came; its longest path has `depth`
  // tokens.
  virtual void OnDraftSent(int depth, double seconds) = 0;
  // A verdict came that was worked ahead of; `hit`: it was answered with what was there.
  virtual void OnVerdictAhead(bool hit) = 0;
  // What the acceptance head is corrected by, and where it would stop a plan that names no
  // threshold.
  virtual void OnHead(float bias, float threshold) = 0;
};

class DraftLoop final : public LinkEvents {
 public:
  // `model` and `clock` outlive the loop, and `observer` if there is one.
  DraftLoop(Model* model, const DraftLoopOptions& options, const Clock* clock,
            DraftObserver* observer);
  bool Push(LinkEvent event) override { return inbox_.TryPush(std::move(event)); }
  void PushUrgent(LinkEvent event) override { inbox_.PushUrgent(std::move(event)); }

  // Handles what has arrived, then runs one forward pass if any session needs one (on a device it
  // may be several, RunChains), then sends.
  // False when there was nothing to do.
  bool Step();
  // Steps until Stop, waiting while there is nothing to do.
  void Run();
  void Stop();

  DrafterLoad load() const;

 private:
  struct Held {
    std::unique_ptr<Mirror> mirror;
    WorkAhead ahead = {};
    uint64_t opened = 0;                  // rises with every session
    uint64_t plan_order = 0;              // rises with every plan that arrives
    Time planned = {};                    // when it arrived
    std::optional<Time> drafted = {};     // when the draft before was complete
    std::optional<Time> decided = {};     // when the verdict before came
    std::optional<uint64_t> prompt = {};  // PromptId, if its rounds are recorded
    std::unique_ptr<DraftTrace> trace = {};
  };

  struct Connection {
    std::shared_ptr<VerifierLink> link;
    DraftBounds bounds;
    std::map<uint64_t, Held> sessions;
    std::vector<Draft> outbox;
    std::optional<DrafterLoad> told;  // the load that it knows of
    bool wanted = true;               // WantedEvent

    int held() const { return static_cast<int>(sessions.size()); }
    int64_t tokens() const;  // that stand, of all its sessions
  };

  // A session's part in a forward pass: some of its missing tokens, or the frontier of its draft.
  struct Share {
    Connection* connection;
    uint64_t session;
    Held* held;
    WorkAhead::Guess* guess = nullptr;  // of working ahead: its mirror, not the session's
    int tokens = 0;
    int logit_rows = 0;

    const Mirror& mirror() const { return guess == nullptr ? *held->mirror : *guess->mirror; }
    bool recorded() const { return held->prompt.has_value() && mirror().session.for_training(); }
  };

  void Handle(LinkEvent event);
  void Handle(Connection& connection, OpenEvent& open);
  void Handle(Connection& connection, const SessionVerdict& verdict);
  Status Open(Connection& connection, const OpenEvent& open);
  Status Apply(Connection& connection, Held& held, const SessionVerdict& verdict);
  // Takes the plan that the session has begun: its turn and its pages.
  Status Begin(const Connection& connection, Held& held);
  // Sessions that each verifier is sure of.
  int part() const;
  // That the verifier may hold at most, as things are.
  int SessionLimit(const Connection& connection) const;
  // Gives up a session of the verifier that holds the most, by `amount`, for one of `asking`'s.
  // False when nobody holds more than `fair`.
  template <class Amount>
  bool GiveWay(const Connection& asking, int64_t fair, Amount amount);
  // Puts what was drawn of the session's draft into the outbox.
  void Send(Connection& connection, uint64_t session, Held& held);
  // Forgets the session, if it is held, and answers its plan without tokens.
  void Refuse(Connection& connection, uint64_t session, uint32_t round, const Status& why);
  void Forget(Connection& connection, uint64_t session);

  // Tokens of one forward pass.
  int step_tokens() const;
  std::vector<Share> PlanStep();
  // The oldest plan of every connection, then the second of every connection, and so on.
  static void TakeTurns(std::vector<Share>& shares);
  // What may be done while there is nothing to do.
  std::vector<Share> PlanAhead();
  bool RunStep();
  // Depths that the session draws until a part of its draft is due.
  int DepthsDue(const DraftSession& session) const;
  // How many depths the model's device can draw without the host between them: until the first part
  // is due, so that none comes later than depth by depth. 0 unless all sessions that are held take
  // part, each with a chain (DraftSession::draws_chain): a verdict on any other would have to wait.
  int ChainDepths(std::span<const Share> shares) const;
  void RunChains(std::span<const Share> shares, int depths);
  // Whether the device drew the token that the host has drawn last.
  bool IsSame(const DraftSession& session, TokenId drawn);
  void RefuseAll(std::span<const Share> shares, const Status& why);
  // With `on_device` the rows stay there, and what is wanted of them is put into batch_.
  Status Forward(std::span<const Share> shares, bool on_device, ForwardOutput* output);
  // Draws the session's next depth from `rows` and puts what is due into the outbox. False: nothing
  // could be drawn from broken rows, and the session was refused and is gone.
  bool Draw(const Share& share, const DraftRows& rows, std::span<const float> accepted,
            std::span<const float> states, StepReport* report);
  // What the verdict says of the head's predictions and of the session's speed.
  void Learn(Held& held, const SessionVerdict& verdict);
  // What the verdict says of tokens whose hidden states are known becomes examples.
  void Record(const Held& held, const SessionVerdict& verdict);
  void SendAll();

  Model* const model_;
  const DraftLoopOptions options_;
  const Clock* const clock_;
  DraftObserver* const observer_;
  Inbox<LinkEvent> inbox_;
  std::atomic<bool> stopped_ = false;
  PageBudget budget_;  // outlives the sessions
  std::map<uint64_t, Connection> connections_;
  DraftBatch batch_;
  AheadGate gate_;
  std::optional<HeadState> head_;
  int sessions_ = 0;
  uint64_t opened_ = 0;
  uint64_t plans_ = 0;
  bool told_of_other_token_ = false;
  std::optional<DrafterLoad> observed_;
};

}  // namespace outrider
