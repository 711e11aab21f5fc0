// Drafts for every session of every verifier with one model. Each step gathers what the sessions
// need (prompts to read, verdicts to catch up with, the next depth of a draft) into one ragged
// forward pass, so that sessions at different depths share the reading of the weights. Its parts do
// the work; docs/architecture.md lists them.
//
// It owns the mirrors and has exclusive use of the model. It has no authoritative state: a session
// that does not fit, or an invalid verdict, is answered with an empty draft and forgotten; the
// verifier opens it again or does without.
//
// Thread: Push, PushUrgent and Stop: any. The rest: one owner thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/inbox.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/trace/tracer.h"
#include "drafter/propose/chain_drafter.h"
#include "drafter/propose/depth_drafter.h"
#include "drafter/propose/draft_forward.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/propose/draft_sender.h"
#include "drafter/propose/draft_sessions.h"
#include "drafter/propose/draft_trace.h"
#include "drafter/propose/grammar_compiler.h"
#include "drafter/propose/head_learner.h"
#include "drafter/propose/lookahead.h"
#include "drafter/propose/training_capture.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

struct DraftLoopOptions {
  int max_sessions = 256;  // over all verifiers
  int max_draft_length = 16;
  int max_draft_tokens = 128;  // per plan; larger plans are refused
  int chunk_depths = 4;        // depths in each part of a draft that is sent
  int ahead_tokens = 0;        // see LookaheadOptions
  int max_ahead_rows = 4;
  // ids from here on do not exist (padded rows). 0: all of the model's exist
  int tokenizer_vocab = 0;
  bool prefix_cache = false;   // keep the KV of texts for sessions that begin the same
  int max_step_tokens = 256;   // per forward pass
  int max_chunk_tokens = 128;  // of one session in it; leaves room for drafts beside a long prompt
  const AcceptanceHead* head = nullptr;  // of the model, if any; outlives the loop
  // Records examples for training a head, if set; outlives the loop.
  HeadRecorder* recorder = nullptr;
  Tracer* tracer = nullptr;  // records spans, if set; outlives the loop
  // Grammars of sessions' texts. nullptr: drafts ignore grammars. Outlives the loop.
  grammar::GrammarCache* grammars = nullptr;
};

class DraftLoop final : public LinkEvents {
 public:
  // The most waiting events, apart from urgent ones: more than those of all verifiers may be
  // (drafter/rpc/attach_stream.cc).
  static constexpr size_t kMostWaiting = 1 << 16;

  // `model`, `clock` and `observer` (may be null) must outlive the loop.
  DraftLoop(Model* model, const DraftLoopOptions& options, const Clock* clock,
            DraftObserver* observer);
  DraftLoop(const DraftLoop&) = delete;
  DraftLoop& operator=(const DraftLoop&) = delete;

  bool Push(LinkEvent event) override { return inbox_.TryPush(std::move(event)); }
  void PushUrgent(LinkEvent event) override { inbox_.PushUrgent(std::move(event)); }

  // Handles events, then runs one forward pass if any session needs one (on a device it may be
  // several), then sends. Returns false if there was nothing to do.
  bool Step();
  // Calls Step until Stop, and waits while there is nothing to do.
  void Run();
  void Stop();

  DrafterLoad load() const { return sessions_.load(); }

 private:
  void Handle(LinkEvent event);
  void Connect(uint64_t id, WelcomeEvent event);
  void Handle(VerifierConnection& connection, uint64_t id, const SessionOpening& open);
  void Handle(VerifierConnection& connection, const SessionVerdict& verdict);
  void Handle(VerifierConnection& connection, const CompiledEvent& compiled);
  // Opens the session, or first asks for its grammar.
  Status Open(VerifierConnection& connection, uint64_t id, const SessionOpening& open);
  // `masks`: of its grammar, if it has one that drafts follow.
  Status Open(VerifierConnection& connection, const SessionOpening& open,
              std::shared_ptr<grammar::GrammarMasks> masks);
  Status Apply(HeldSession& held, const SessionVerdict& verdict);
  // Stamps the plan that the session has begun, and secures its pages.
  Status Begin(HeldSession& held);
  void RefillGrammarShares();
  // Returns false if no session needs a forward pass.
  bool RunPass();
  int step_tokens() const;  // per forward pass

  Model* const model_;
  const DraftLoopOptions options_;
  const Clock* const clock_;
  Inbox<LinkEvent> inbox_{kMostWaiting};
  std::atomic<bool> stopped_ = false;
  DraftTraces traces_;
  DraftObservers observers_;
  HeadLearner head_;
  const TrainingCapture capture_;
  DraftSessions sessions_;
  Lookahead lookahead_;
  DraftSender sender_;
  DraftForward forward_;
  DepthDrafter depths_;
  ChainDrafter chains_;
  grammar::MaskScratch mask_scratch_;
  std::optional<GrammarCompiler> compiler_;  // with a cache; pushes to the inbox
};

}  // namespace outrider
