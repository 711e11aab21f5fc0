// The verifier's heart: owns the target model and every session, runs one ragged forward pass after
// another over whatever is ready (prefill chunks, plain steps, drafts to score), verifies, streams.
// Knows no thread, socket or drafter: requests come by Submit, drafts by draft_consumer(), time by
// Clock.
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
  int max_sessions = 256;  // running at once
  int max_waiting = 1024;  // queued for a place
  int max_waiting_per_client = 1024;
  bool prefix_cache = true;  // share the KV of common prefixes
  // Chooses what each round drafts, where the request leaves it open. Without: as below.
  std::optional<PlannerOptions> planner;
  // Of a round, unless the request says otherwise.
  SpeculationDefaults speculation = {.draft_length = 4, .paths = 1};
  int max_draft_length = 16;
  int max_paths = 8;
  int max_draft_tokens = 128;  // draws of a round
  bool untrusted_drafters = false;
  GenerationDefaults defaults = {};
  // A forward pass is kept to about this long by taking fewer rows into it. 0: no target.
  double step_target_seconds = 0;
  SchedulerOptions scheduler;
  // Of requests that bring none: never the same twice.
  std::function<uint64_t()> draw_seed;  // empty: std::random_device
  Tracer* tracer = nullptr;             // of spans, where they are recorded; outlives the engine
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
  int cached_pages = 0;  // that the prefix cache holds, alone or with sessions
  bool draining = false;
  int clients = 0;  // that have sessions
  // Who drafted the last rounds (some 500), as shares of them by Proposer::Kind; kNone: plain ones.
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
  // What a request must keep to, from what is loaded. Pure: any thread may validate against a copy.
  static RequestLimits LimitsOf(const EngineOptions& options, const Model& model,
                                const Tokenizer& tokenizer);

  // When a request that was refused for want of room may be worth trying again.
  Duration RetryAfter() const { return admission_.RetryAfter(); }

  // For the threads that take requests in.
  AdmissionGate& gate() { return gate_; }

  // Queues a request under an id that the caller has not used before. kInvalidArgument,
  // kResourceExhausted (queue full) or kUnavailable (draining): its sink is not called then.
  Status Submit(uint64_t id, GenerationRequest request, std::shared_ptr<GenerationSink> sink);
  // Ends a session and frees its pages at once; its sink fails with `reason` and how many tokens
  // there were. Unknown ids are ignored.
  void Cancel(uint64_t id, const Status& reason);
  void CancelAll(const Status& reason);
  // No new requests and plans from now on; what was accepted runs to its end.
  void Drain() { exchange_.Drain(); }
  bool idle() const { return sessions_.empty(); }

  // One forward pass over what is ready. False: nothing was.
  bool Step();
  // When to call Step again although nothing arrived; nullopt: never.
  std::optional<Time> NextDeadline() const;

  // Where drafts go.
  DraftConsumer& draft_consumer() { return exchange_; }

  EngineSnapshot Snapshot() const;

 private:
  // Of the round under way.
  struct RoundResult {
    const DecidedRound* decided = nullptr;  // nullptr: none was
    // AcceptanceByte of its known draft nodes, from 1 on, for a drafter that learns from it.
    std::span<const uint8_t> acceptance;
    std::span<const float> logits;  // [nodes, vocab] for requests with log probabilities
  };

  // Admits waiting sessions and plans their rounds.
  void Admit();
  void Expire(Time now);
  // What the next forward pass computes, with pages for it.
  std::vector<BatchEntry> ChooseBatch();
  Status RunBatch(std::span<BatchEntry> batch);
  // Adds the entry's round to those that the step decides.
  void AddRound(BatchEntry& entry);
  // Goes on with what a forward pass computed of a sequence, and with its round if that was
  // decided. The session may be gone afterwards.
  void TakeResult(const BatchEntry& entry, const RoundResult& round);
  // Ends a request for which the model has no usable logits after its text.
  void EndBroken(Session& session);
  // Ends a request whose grammar could not be followed within its limits.
  void EndTooAmbiguous(Session& session);
  // Ends a request whose masks leave no token to sample next.
  void EndRuledOut(Session& session);
  // Adds a round's tokens to the session's text, up to where it ends (`end`: why it does, if so) or
  // to a token that the request rules out (`is_ruled_out`).
  Chunk Emit(Session& session, const Verdict& verdict, std::span<const TokenId> emitted,
             std::span<const float> raw_rows, std::optional<FinishReason>* end, bool* is_ruled_out);
  // Applies `verdict` on the round: tokens out, KV cut, next plan. A session that is over is gone
  // afterwards. `pending`: tokens before the draft in the forward pass that scored it.
  void Advance(Session& session, const RoundResult& round, const Verdict& verdict, int pending);
  // Of the tokens on the path to `node` and of the token that follows it, as many as `tokens` has.
  std::vector<TokenLogprobs> Logprobs(const Session& session, int node,
                                      std::span<const TokenId> tokens,
                                      std::span<const float> raw_rows) const;
  // Keeps of the last forward pass what `node` and the tokens before the draft hold.
  void KeepAccepted(Session& session, int node, int pending);
  void Finish(Session& session, FinishReason reason);
  // Takes the session out of the table and frees what it holds. The reference dies.
  void Remove(Session& session);
  // For the threads that take requests in.
  void PublishQueue();
  EngineLevels Levels() const;

  EngineOptions options_;
  Model* model_;
  const Tokenizer* tokenizer_;
  const Clock* clock_;
  RequestLimits limits_;
  uint64_t step_ = 0;
  SessionTable sessions_;  // empty before what follows is destroyed: ~Engine ends all
  EngineObservers observers_;
  ProposerShares* proposer_shares_;  // one of them
  RoundBatch rounds_;                // of the step
  grammar::MaskScratch mask_scratch_;
  std::vector<grammar::MaskWord> node_masks_;  // of a round
  Admission admission_;
  StepPace pace_;
  DraftExchange exchange_;
  AdmissionGate gate_;
};

}  // namespace outrider
