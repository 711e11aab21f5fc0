// The verifier's core. It owns the target model and every session, runs one ragged forward pass
// after another over whatever is ready (prefill chunks, plain steps, drafts to score), verifies and
// streams. It knows no thread, socket or drafter: requests come by Submit, drafts by
// draft_consumer(), time by Clock.
//
// Thread: the engine thread only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/grammar/grammar_masks.h"
#include "common/model/model.h"
#include "common/rules/round_batch.h"
#include "common/text/tokenizer.h"
#include "common/trace/tracer.h"
#include "verifier/engine/admission.h"
#include "verifier/engine/admission_gate.h"
#include "verifier/engine/batch_entry.h"
#include "verifier/engine/deliveries.h"
#include "verifier/engine/draft_exchange.h"
#include "verifier/engine/draft_source.h"
#include "verifier/engine/engine_observer.h"
#include "verifier/engine/metrics.h"
#include "verifier/engine/planner.h"
#include "verifier/engine/proposer_shares.h"
#include "verifier/engine/request.h"
#include "verifier/engine/scheduler.h"
#include "verifier/engine/session.h"
#include "verifier/engine/sink.h"
#include "verifier/engine/step_pace.h"

namespace outrider {

struct EngineOptions {
  AdmissionOptions admission;
  // Chooses what each round drafts if the request leaves it open. Without it, as below.
  std::optional<PlannerOptions> planner;
  // The defaults of requests.
  SpeculationDefaults speculation = {.draft_length = 4, .paths = 1};
  int max_draft_length = 16;
  int max_paths = 8;
  int max_draft_tokens = 128;  // draft tokens per round
  bool untrusted_drafters = false;
  GenerationDefaults defaults = {};
  // Limits a forward pass to about this time by giving it fewer rows. 0: no limit.
  double step_target_seconds = 0;
  SchedulerOptions scheduler;
  // Draws the seeds of requests without one; never the same twice.
  std::function<uint64_t()> draw_seed;  // empty: std::random_device
  Tracer* tracer = nullptr;             // records spans, if set; outlives the engine
};

struct SessionSnapshot {
  uint64_t id = 0;
  const char* phase = "";  // "waiting", "prefill", "decode"
  int prompt_tokens = 0;
  int completion_tokens = 0;
  std::string drafter;
  int drafted_tokens = 0;
  int accepted_tokens = 0;
};

struct EngineSnapshot {
  int running = 0;
  int waiting = 0;
  int total_pages = 0;
  int free_pages = 0;
  int cached_pages = 0;  // held by the prefix cache, alone or with sessions
  bool draining = false;
  int clients = 0;  // clients with sessions
  // Shares of the last 500 rounds or so by who drafted them (Proposer::Kind); kNone: plain rounds.
  // All 0 before the first round.
  std::array<double, kProposerKinds> proposer_shares{};
  std::vector<SessionSnapshot> sessions;
};

class Engine {
 public:
  // All must outlive the engine. `drafts` and `metrics` may be nullptr.
  Engine(const EngineOptions& options, Model* model, const Tokenizer* tokenizer,
         DraftSource* drafts, VerifierMetrics* metrics, const Clock* clock);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const RequestLimits& limits() const { return limits_; }
  // The limits that requests must keep, from what is loaded. Pure: any thread may validate against
  // a copy.
  static RequestLimits LimitsOf(const EngineOptions& options, const Model& model,
                                const Tokenizer& tokenizer);

  // When a request that was refused for lack of room may be tried again.
  Duration RetryAfter() const { return admission_.RetryAfter(); }

  // For the threads that receive requests.
  AdmissionGate& gate() { return gate_; }

  // Queues all choices of a client's request, or none. kInvalidArgument, kResourceExhausted (too
  // little room in the queue) or kUnavailable (draining): no sink is called.
  Status Submit(std::vector<RequestChoice> choices);
  Status Submit(uint64_t id, GenerationRequest request, std::shared_ptr<GenerationSink> sink);
  // Ends a session and frees its pages at once. Its sink fails with `reason` and the number of
  // tokens so far. Unknown ids are ignored; all calls of the sink of one that has ended were made.
  void Cancel(uint64_t id, const Status& reason);
  void CancelAll(const Status& reason);
  // Refuses new requests and makes no more plans; accepted requests run to their end.
  void Drain() { exchange_.Drain(); }
  // There is no session, and every call of a sink has been made.
  bool idle() const { return sessions_.empty(); }
  int running() const { return admission_.running(); }
  int waiting() const { return admission_.waiting(); }

  // Runs one forward pass over what is ready. Returns false if nothing was. On a device, calls of
  // sinks may wait until the next Step has started its pass. None waits once Step returns false.
  bool Step();
  // When to call Step again if nothing arrives; nullopt: never.
  std::optional<Time> NextDeadline() const;

  // Where drafts go.
  DraftConsumer& draft_consumer() { return exchange_; }

  EngineSnapshot Snapshot() const;

 private:
  // The result of one sequence's round.
  struct RoundResult {
    const DecidedRound* decided = nullptr;  // nullptr: it was not decided
    // AcceptanceByte of its draft nodes, from 1 on, for a drafter that learns from it.
    std::span<const uint8_t> acceptance;
    std::span<const float> logits;  // [nodes, vocab] for requests with log probabilities
  };

  // Adds a session, which waits.
  void Add(RequestChoice choice);
  // Admits waiting sessions and plans their rounds.
  void Admit();
  void Expire(Time now);
  // Whether a session has tokens to compute now. If the next step finds none after all, it makes
  // the calls that wait itself.
  bool HasReady() const;
  // Chooses what the next forward pass computes, and reserves pages for it.
  std::vector<BatchEntry> ChooseBatch();
  Status RunBatch(std::span<BatchEntry> batch);
  // Its forward pass has failed.
  void CancelBatch(std::span<const BatchEntry> batch, const Status& why);
  // Adds the entry's round to those that this step decides.
  void AddRound(BatchEntry& entry);
  // Processes what a forward pass computed and Decide decided. `logits`: the rows that were copied
  // to the host.
  void TakeResults(std::span<const BatchEntry> batch, const Decisions& decisions,
                   const float* logits);
  // Processes what a forward pass computed for a sequence, and its round if that was decided. The
  // session may be gone afterwards.
  void TakeResult(const BatchEntry& entry, const RoundResult& round);
  // Ends a request if the model has no usable logits after its text.
  void EndBroken(Session& session);
  // Ends a request if its grammar could not be followed within the limits.
  void EndTooAmbiguous(Session& session);
  // Ends a request if its masks leave no token to sample.
  void EndRuledOut(Session& session);
  // Appends a round's tokens to the session's text, up to its end (`end`: the reason) or to a token
  // that the request rules out (`is_ruled_out`).
  Chunk Emit(Session& session, const Verdict& verdict, std::span<const TokenId> emitted,
             std::span<const float> raw_rows, std::optional<FinishReason>* end, bool* is_ruled_out);
  // Applies `verdict` to the round: emits tokens, truncates the KV, makes the next plan. A finished
  // session is gone afterwards. `pending`: tokens before the draft in its forward pass.
  void Advance(Session& session, const RoundResult& round, const Verdict& verdict, int pending);
  // Log probabilities of the tokens on the path to `node` and of the next, as many as `tokens` has.
  std::vector<TokenLogprobs> Logprobs(const Session& session, int node,
                                      std::span<const TokenId> tokens,
                                      std::span<const float> raw_rows) const;
  // Keeps the KV of the last forward pass for `node`'s path and the tokens before the draft.
  void KeepAccepted(Session& session, int node, int pending);
  void Finish(Session& session, FinishReason reason);
  // Removes the session from the table and frees what it holds. The reference becomes invalid.
  void Remove(Session& session);
  // Publishes the queue's length to the gate.
  void PublishQueue();
  EngineLevels Levels() const;

  EngineOptions options_;
  Model* model_;
  const Tokenizer* tokenizer_;
  const Clock* clock_;
  RequestLimits limits_;
  uint64_t step_ = 0;
  std::optional<Time> pass_end_;  // of the step before; nullopt: it computed nothing
  SessionTable sessions_;         // emptied by ~Engine before the members below are destroyed
  EngineObservers observers_;
  ProposerShares* proposer_shares_;  // one of the observers
  RoundBatch rounds_;                // of this step
  grammar::MaskScratch mask_scratch_;
  std::vector<grammar::MaskWord> node_masks_;  // of one round
  Admission admission_;
  StepPace pace_;
  DraftExchange exchange_;
  AdmissionGate gate_;
  Deliveries deliveries_;
};

}  // namespace outrider
