#include "verifier/engine/engine.h"

#include <algorithm>
#include <random>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/kv/page_table.h"
#include "verifier/engine/metrics_observer.h"
#include "verifier/engine/prompt_logprobs.h"
#include "verifier/engine/round_spec.h"
#include "verifier/engine/speedup_observer.h"
#include "verifier/engine/trace_observer.h"

namespace outrider {
namespace {

// Tokens of the session's text that can be computed now. While it waits for its draft, that is up
// to the token before the draft.
int ComputableTokens(const Session& session) {
  return session.pending() - (session.drafting.holds_round() ? 1 : 0);
}

// Whether a device keeps some of the batch's logits rows. If not, Model::Forward waits for the
// pass.
bool LeavesLogits(std::span<const BatchEntry> batch) {
  return std::any_of(batch.begin(), batch.end(), [](const BatchEntry& entry) {
    return !entry.logit_rows.empty() && !CopiesLogits(entry);
  });
}

// Whether the session's planner chose the round under way.
bool IsPlanned(const Session& session) {
  return session.planner != nullptr && session.planner->pending();
}

uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

std::vector<TokenId> StopTokens(const GenerationRequest& request, const ModelConfig& config) {
  std::vector<TokenId> stops = request.stop_tokens;
  if (!request.ignore_eos) {
    stops.insert(stops.end(), config.eos_token_ids.begin(), config.eos_token_ids.end());
    stops.insert(stops.end(), request.format_end_tokens.begin(), request.format_end_tokens.end());
  }
  if (request.grammar_masks != nullptr) {
    const std::span<const TokenId> ends = request.grammar_masks->tokens().end_tokens();
    stops.insert(stops.end(), ends.begin(), ends.end());
  }
  return stops;
}

// `depth`: length of the draft's longest path.
void CountRound(const Chunk& chunk, int depth, Summary* summary) {
  ++summary->rounds;
  summary->forced_tokens += chunk.forced;
  if (chunk.drafted == 0) return;
  ++summary->drafted_rounds;
  summary->drafted_tokens += chunk.drafted;
  summary->accepted_tokens += chunk.accepted;
  std::vector<int>& positions = summary->accepted_per_position;
  positions.resize(std::max(positions.size(), static_cast<size_t>(depth)));
  for (int i = 0; i < chunk.accepted; ++i) ++positions[static_cast<size_t>(i)];
}

// The usable part of a round's verdict. Nothing is sampled from a logits row that has no mask or is
// not finite: if the accepted path reaches one, the token before it is the round's last. The next
// round begins there, as plain decoding would, and ends the request if it still has to. nullopt:
// the round's first row is such a row.
std::optional<Verdict> UsableVerdict(const BatchEntry& entry, const DecidedRound& decided) {
  const DraftTree& draft = entry.session->drafting.draft();
  int node = decided.verdict.node;
  const bool is_broken = decided.broken_depth >= 0;
  while (is_broken && draft.depth(node) > decided.broken_depth) node = draft.parent(node);
  const bool is_unmasked =
      std::find(entry.unmasked.begin(), entry.unmasked.end(), node) != entry.unmasked.end();
  if (!is_broken && !is_unmasked) return decided.verdict;
  if (node == DraftTree::kRoot) return std::nullopt;
  return Verdict{
      .node = draft.parent(node), .accepted = draft.depth(node) - 1, .next = draft.token(node)};
}

StepPace PaceFor(const EngineOptions& options, const Model& model) {
  const int most = std::min(options.scheduler.token_budget, model.max_batch_tokens());
  // One session's largest draft always fits beside the share reserved for prompts.
  const int least = std::min(most, (options.max_draft_tokens + 8) * 4 / 3 + 1);
  return {least, most, options.step_target_seconds};
}

}  // namespace

RequestLimits Engine::LimitsOf(const EngineOptions& options, const Model& model,
                               const Tokenizer& tokenizer) {
  return {.vocab_size = std::min(model.config().vocab_size, tokenizer.vocab_size()),
          .max_context = model.config().max_position_embeddings,
          .kv_tokens = model.total_pages() * model.page_tokens(),
          .max_draft_length = options.max_draft_length,
          .max_paths = options.max_paths,
          .max_draft_tokens = options.max_draft_tokens,
          .untrusted_drafters = options.untrusted_drafters,
          .max_prompt_bytes = tokenizer.MostBytes(model.config().max_position_embeddings),
          .max_waiting =
              std::min(options.admission.max_waiting, options.admission.max_waiting_per_client),
          .defaults = options.defaults};
}

Engine::Engine(const EngineOptions& options, Model* model, const Tokenizer* tokenizer,
               DraftSource* drafts, VerifierMetrics* metrics, const Clock* clock)
    : options_(options),
      model_(model),
      tokenizer_(tokenizer),
      clock_(clock),
      limits_(LimitsOf(options, *model, *tokenizer)),
      admission_(options.admission, &sessions_, model, &observers_),
      pace_(PaceFor(options, *model)),
      exchange_({.sessions = &sessions_,
                 .admission = &admission_,
                 .pace = &pace_,
                 .observers = &observers_,
                 .drafts = drafts,
                 .clock = clock,
                 .mask_scratch = &mask_scratch_,
                 .max_forced_tokens = options.max_draft_tokens},
                options.planner, limits_.kv_tokens, metrics),
      gate_(options.admission.max_waiting,
            metrics != nullptr ? &metrics->requests_refused_queue_full : nullptr) {
  auto shares = std::make_unique<ProposerShares>();
  proposer_shares_ = shares.get();
  observers_.Add(std::move(shares));
  if (metrics != nullptr) {
    observers_.Add(std::make_unique<MetricsObserver>(metrics, model));
    observers_.Add(std::make_unique<SpeedupObserver>(metrics));
  }
  if (options.tracer != nullptr) observers_.Add(std::make_unique<TraceObserver>(options.tracer));
}

Engine::~Engine() { CancelAll(Unavailable("the verifier is shutting down")); }

Status Engine::Submit(uint64_t id, GenerationRequest request,
                      std::shared_ptr<GenerationSink> sink) {
  std::vector<RequestChoice> only(1);
  only[0] = {.id = id, .request = std::move(request), .sink = std::move(sink)};
  return Submit(std::move(only));
}

Status Engine::Submit(std::vector<RequestChoice> choices) {
  if (exchange_.draining()) {
    observers_.Notify(&EngineObserver::OnRequestRefused, Refusal::kDraining);
    return Unavailable("the verifier is draining and takes no new requests");
  }
  const int count = static_cast<int>(choices.size());
  OUTRIDER_TRY(admission_.CheckQueue(choices.front().request.client, count));
  for (const RequestChoice& choice : choices) {
    if (!choice.after.has_value()) OUTRIDER_TRY(Validate(choice.request, limits_));
  }
  for (RequestChoice& choice : choices) Add(std::move(choice));
  PublishQueue();
  return Status();
}

void Engine::Add(RequestChoice choice) {
  GenerationRequest& request = choice.request;
  auto session = std::make_unique<Session>();
  session->id = choice.id;
  session->after = choice.after;
  session->sink = std::move(choice.sink);
  session->max_new_tokens = MaxNewTokens(request, limits_);
  session->tokens = std::move(request.prompt);
  session->prompt_tokens = static_cast<int>(session->tokens.size());
  if (request.seed.has_value()) {
    session->seed = *request.seed;
  } else {
    session->seed = options_.draw_seed ? options_.draw_seed() : RandomSeed();
  }
  session->speculation = ResolveSpeculation(request, options_.speculation, limits_);
  session->sampling = std::make_unique<SequenceSampling>(
      request.sampling, model_->config().vocab_size, limits_.vocab_size);
  session->sampling->ObservePrompt(session->tokens);
  if (request.grammar_masks != nullptr) {
    // Until its first round has shown it, about 32 such rounds fit in a step.
    session->mask_steps = options_.scheduler.mask_steps / 32 + 1;
    session->text_grammar = std::make_unique<grammar::DraftGrammar>(
        request.grammar_masks, MaskOf(request.sampling, model_->config().vocab_size));
  }
  const std::vector<TokenId> stop_tokens = StopTokens(request, model_->config());
  session->sampling->SuppressBefore(request.min_tokens, stop_tokens);
  session->output = std::make_unique<OutputStream>(
      *tokenizer_, OutputOptions{.stop_strings = request.stop_strings,
                                 .stop_tokens = stop_tokens,
                                 .max_tokens = session->max_new_tokens,
                                 .min_tokens = request.min_tokens,
                                 .skip_special = request.skip_special,
                                 .shown_special = request.shown_special,
                                 .include_stop = request.include_stop,
                                 .follows_grammar = session->text_grammar != nullptr,
                                 .match_special = request.stop_strings_have_special});
  session->request = std::move(request);
  exchange_.Open(*session);
  session->times.submitted = clock_->Now();
  observers_.Notify(&EngineObserver::OnSubmitted, *session);
  sessions_.emplace(choice.id, std::move(session));
}

void Engine::Cancel(uint64_t id, const Status& reason) {
  OUTRIDER_CHECK(!deliveries_.is_making());  // the step's batch refers to its sessions
  const auto it = sessions_.find(id);
  // If it has just ended, its last calls come before what the caller does next.
  if (it == sessions_.end()) return deliveries_.ReleaseUnlessHeld();
  const std::shared_ptr<GenerationSink> sink = it->second->sink;
  const int tokens = it->second->output->tokens();
  observers_.Notify(&EngineObserver::OnEnded, *it->second, reason, clock_->Now());
  Remove(*it->second);
  deliveries_.Make(
      [sink, status = Status(reason.code(), reason.message() + ", after " + std::to_string(tokens) +
                                                (tokens == 1 ? " token" : " tokens"))] {
        sink->Fail(status);
      });
}

void Engine::CancelAll(const Status& reason) {
  while (!sessions_.empty()) Cancel(sessions_.begin()->first, reason);
}

void Engine::Admit() {
  while (Session* const session = admission_.AdmitNext(clock_->Now())) {
    exchange_.PlanAdmitted(*session);
  }
}

void Engine::Expire(Time now) {
  std::vector<uint64_t> late;
  for (const auto& [id, session] : sessions_) {
    if (session->request.deadline.has_value() && now >= *session->request.deadline) {
      late.push_back(id);
    } else if (session->awaits_draft() && now >= session->drafting.deadline()) {
      exchange_.MarkLate(*session);
    }
  }
  for (const uint64_t id : late) {
    Cancel(id, Status(Code::kDeadlineExceeded, "the request's deadline has passed"));
  }
}

bool Engine::Step() {
  observers_.Notify(&EngineObserver::OnStepBegin, clock_->Now());
  Expire(clock_->Now());  // first, so that the places of those that end are taken
  Admit();
  PublishQueue();  // before the forward pass, which takes long
  deliveries_.Hold();
  std::vector<BatchEntry> batch = ChooseBatch();
  const Time start = clock_->Now();
  const bool worked = !batch.empty();
  const Status status = worked ? RunBatch(batch) : Status();
  const bool has_results = worked && status.ok();
  std::optional<double> forward_seconds;
  if (has_results) forward_seconds = Seconds(clock_->Now() - start);
  if (!has_results) pass_end_.reset();
  if (!status.ok()) CancelBatch(batch, status);
  exchange_.Flush();
  deliveries_.EndHold();
  // The next step makes them while a device computes, if it has something to compute.
  const bool next_makes_them = model_->device() != nullptr && has_results && HasReady();
  if (!next_makes_them) deliveries_.Release();
  observers_.Notify(&EngineObserver::OnStepEnd, Levels(), forward_seconds, clock_->Now());
  return worked;
}

bool Engine::HasReady() const {
  return std::any_of(sessions_.begin(), sessions_.end(), [](const auto& entry) {
    return entry.second->is_running() && ComputableTokens(*entry.second) > 0;
  });
}

void Engine::CancelBatch(std::span<const BatchEntry> batch, const Status& why) {
  Log(LogLevel::kError, "forward pass failed", {{"status", why.ToString()}});
  std::vector<uint64_t> all, copied;
  for (const BatchEntry& entry : batch) {
    all.push_back(entry.session->id);
    if (CopiesLogits(entry)) copied.push_back(entry.session->id);
  }
  // Only rows that are copied take memory. Without these requests the others can go on.
  const bool is_memory = why.code() == Code::kResourceExhausted && !copied.empty();
  for (const uint64_t id : is_memory ? copied : all) Cancel(id, why.Annotate("forward pass"));
}

std::vector<BatchEntry> Engine::ChooseBatch() {
  std::vector<Session*> ready;
  std::vector<Candidate> candidates;
  const bool others_wait = std::any_of(sessions_.begin(), sessions_.end(), [](const auto& entry) {
    return entry.second->is_running() && PromptLogprobsLeft(*entry.second) == 0;
  });
  int prompt_rows =
      PromptRowsOfStep(model_->config().vocab_size,
                       others_wait ? std::optional(pace_.step_seconds()) : std::nullopt);
  for (const auto& [id, session] : sessions_) {
    if (!session->is_running()) continue;
    int pending = ComputableTokens(*session);
    if (PromptLogprobsLeft(*session) > 0) {
      pending = std::min(session->pending() - 1, prompt_rows);
      prompt_rows -= pending;
    }
    if (pending == 0) continue;
    candidates.push_back({.index = static_cast<int>(ready.size()),
                          .pending = pending,
                          .draft = session->drafting.draft().size(),
                          .mask_steps = session->mask_steps,
                          .served = session->served,
                          .arrival = id});
    ready.push_back(session.get());
  }
  SchedulerOptions scheduler = options_.scheduler;
  scheduler.token_budget = pace_.row_budget();
  std::vector<Share> shares = ChooseShares(std::move(candidates), scheduler);
  const auto session_of = [&](const Share& share) -> Session& {
    return *ready[static_cast<size_t>(share.index)];
  };
  // Reserves pages for what each adds, the oldest session first, so that it is never preempted.
  std::sort(shares.begin(), shares.end(),
            [](const Share& a, const Share& b) { return a.index < b.index; });
  std::erase_if(shares, [&](const Share& share) {
    Session& session = session_of(share);
    const int draft = share.last ? session.drafting.draft().size() : 0;
    return !session.is_running() ||
           !admission_.Reserve(session, session.computed + share.pending + draft);
  });
  std::vector<BatchEntry> batch;
  batch.reserve(shares.size());
  for (const Share& share : shares) {
    // Skips a session that was preempted for an older one meanwhile.
    if (session_of(share).is_running()) batch.push_back(MakeBatchEntry(session_of(share), share));
  }
  // The rows of rounds come first.
  std::stable_partition(batch.begin(), batch.end(),
                        [](const BatchEntry& entry) { return !HasPromptRows(entry); });
  return batch;
}

Status Engine::RunBatch(std::span<BatchEntry> batch) {
  ++step_;
  std::vector<ForwardSequence> forward;
  PlannedStep step{.sessions = static_cast<int>(batch.size())};
  rounds_.Clear();
  for (const BatchEntry& entry : batch) {
    forward.push_back(ForwardOf(entry));
    step.rows += entry.rows();
    step.prompt_rows += entry.pending - (entry.ends_round ? 1 : 0);
    step.context += entry.session->computed;
    step.planned += IsPlanned(*entry.session) ? 1 : 0;
  }
  if (!LeavesLogits(batch)) deliveries_.Release();
  const Time start = clock_->Now();
  ForwardPass pass{.batch = batch, .rows = step.rows};
  if (pass_end_.has_value()) pass.host_seconds = Seconds(start - *pass_end_);
  ForwardOutput output;
  OUTRIDER_TRY(model_->Forward(forward, /*want_hidden=*/false, &output));
  deliveries_.Release();
  observers_.Notify(&EngineObserver::OnForward, pass);
  // Computes masks while a device still computes the logits.
  for (BatchEntry& entry : batch) {
    if (entry.ends_round) AddRound(entry);
  }
  Decisions decisions;
  if (!rounds_.empty()) decisions = model_->Decide(rounds_, limits_.vocab_size);
  pass_end_ = clock_->Now();
  step.seconds = Seconds(*pass_end_ - start);
  pace_.Record(step.rows, step.seconds);
  exchange_.OnForward(step);
  TakeResults(batch, decisions, output.logits);
  return Status();
}

void Engine::TakeResults(std::span<const BatchEntry> batch, const Decisions& decisions,
                         const float* logits) {
  size_t next = 0;
  for (const BatchEntry& entry : batch) {
    RoundResult result;
    if (entry.ends_round) {
      const RoundHeader& round = rounds_.round(static_cast<int>(next));
      const auto nodes = static_cast<size_t>(round.nodes);
      result.decided = &decisions.rounds[next++];
      if (round.spec.wants_acceptance) {
        result.acceptance =
            decisions.acceptance.subspan(static_cast<size_t>(round.first_node) + 1,
                                         static_cast<size_t>(result.decided->known_nodes));
      }
      if (entry.session->request.logprobs.has_value()) {
        result.logits = {logits, nodes * static_cast<size_t>(model_->config().vocab_size)};
        logits += result.logits.size();
      }
    }
    if (HasPromptRows(entry)) {
      const std::span<const float> wanted(
          logits, entry.logit_rows.size() * static_cast<size_t>(model_->config().vocab_size));
      TakePromptRows(entry, wanted, model_->config().vocab_size, limits_.vocab_size);
      logits += wanted.size();
    }
    TakeResult(entry, result);
  }
}

void Engine::AddRound(BatchEntry& entry) {
  Session& session = *entry.session;
  const DraftTree& draft = session.drafting.draft();
  node_masks_.clear();
  if (session.text_grammar != nullptr) {
    const size_t words = session.text_grammar->mask_words();
    const int64_t before = mask_scratch_.stepper.steps();
    node_masks_.resize(words * static_cast<size_t>(draft.size() + 1));
    for (int node = 0; node <= draft.size(); ++node) {
      const auto mask = std::span(node_masks_).subspan(static_cast<size_t>(node) * words, words);
      if (session.text_grammar->Fill(draft, node, mask_scratch_, mask).ok()) continue;
      std::fill(mask.begin(), mask.end(), ~grammar::MaskWord{0});
      // The draft ends here. Whether it does depends on this node's token and those before it, not
      // on later ones, so this is a shorter draft and not a selected one.
      entry.unmasked.push_back(node);
    }
    session.mask_steps = mask_scratch_.stepper.steps() - before;
  }
  rounds_.Add(RoundSpecOf(session), draft, session.sampling->state(), node_masks_, entry.unmasked);
}

void Engine::TakeResult(const BatchEntry& entry, const RoundResult& round) {
  Session& session = *entry.session;
  session.served = step_;
  session.computed += entry.pending;
  if (round.decided == nullptr) {
    // the time until now does not count as waiting for the draft
    session.drafting.Postpone(clock_->Now());
  } else if (const auto verdict = UsableVerdict(entry, *round.decided)) {
    Advance(session, round, *verdict, entry.pending);
  } else if (round.decided->broken_depth >= 0) {
    EndBroken(session);
  } else {
    EndTooAmbiguous(session);
  }
}

void Engine::EndBroken(Session& session) {
  const Status status = Internal("the model's logits are not finite at position " +
                                 std::to_string(session.tokens.size()));
  Log(LogLevel::kError, "request ended: its logits are NaN or infinite",
      {{"session", session.id}, {"reason", status.message()}});
  observers_.Notify(&EngineObserver::OnNotFinite, session);
  Cancel(session.id, status);
}

void Engine::EndTooAmbiguous(Session& session) {
  Cancel(session.id, InvalidArgument("structured_output: the grammar is too ambiguous to be "
                                     "followed here; write it with fewer ways to read a text"));
}

void Engine::EndRuledOut(Session& session) {
  Cancel(session.id,
         InvalidArgument("the allowed tokens, bad words, min_tokens and the grammar leave no token "
                         "to sample"));
}

std::vector<TokenLogprobs> Engine::Logprobs(const Session& session, int node,
                                            std::span<const TokenId> tokens,
                                            std::span<const float> raw_rows) const {
  // The logits row before each token: the root's, then those of the nodes on the path.
  std::vector<int> path;
  const DraftTree& draft = session.drafting.draft();
  for (; node != DraftTree::kRoot; node = draft.parent(node)) path.push_back(node);
  path.push_back(DraftTree::kRoot);
  std::reverse(path.begin(), path.end());
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  std::vector<TokenLogprobs> logprobs;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto row = raw_rows.subspan(static_cast<size_t>(path[i]) * vocab, vocab);
    logprobs.push_back(LogprobsOf(row.first(static_cast<size_t>(limits_.vocab_size)), tokens[i],
                                  *session.request.logprobs));
  }
  return logprobs;
}

void Engine::KeepAccepted(Session& session, int node, int pending) {
  const DraftTree& draft = session.drafting.draft();
  std::vector<int32_t> path;
  for (; node != DraftTree::kRoot; node = draft.parent(node)) path.push_back(pending - 1 + node);
  for (int row = pending - 1; row >= 0; --row) path.push_back(row);
  std::reverse(path.begin(), path.end());
  model_->KeepPath(session.sequence, path);
}

Chunk Engine::Emit(Session& session, const Verdict& verdict, std::span<const TokenId> emitted,
                   std::span<const float> raw_rows, std::optional<FinishReason>* end,
                   bool* is_ruled_out) {
  Chunk chunk;
  for (const TokenId token : emitted) {
    *is_ruled_out =
        !session.sampling->Permits(token) ||
        (session.text_grammar != nullptr && !session.text_grammar->Advance(token, mask_scratch_));
    if (*is_ruled_out) break;
    session.tokens.push_back(token);
    session.sampling->ObserveOutput(token);
    chunk.tokens.push_back(token);
    *end = session.output->Push(token, &chunk.text);
    if (end->has_value()) break;
  }
  if (session.request.logprobs.has_value()) {
    chunk.logprobs = Logprobs(session, verdict.node, chunk.tokens, raw_rows);
  }
  // What a stop string cut off was never output, and does not count as accepted.
  const int accepted = std::min(verdict.accepted, static_cast<int>(chunk.tokens.size()));
  if (session.drafting.is_forced()) {
    chunk.forced = accepted;
  } else {
    chunk.accepted = accepted;
    chunk.drafted = session.drafting.draft().size();
  }
  return chunk;
}

void Engine::Advance(Session& session, const RoundResult& round, const Verdict& verdict,
                     int pending) {
  DraftingState& drafting = session.drafting;
  if (IsSampledRound(session) && drafting.draft().draws(DraftTree::kRoot).size() > 1) {
    observers_.Notify(&EngineObserver::OnFirstTokenAcceptance, round.decided->first_token);
  }
  std::vector<TokenId> emitted = drafting.draft().Path(verdict.node);
  emitted.push_back(verdict.next);
  const int depth = drafting.is_forced() ? 0 : drafting.draft().max_depth();
  std::optional<FinishReason> end;
  bool is_ruled_out = false;
  Chunk chunk = Emit(session, verdict, emitted, round.logits, &end, &is_ruled_out);
  if (chunk.tokens.empty()) return EndRuledOut(session);
  session.computed += chunk.accepted + chunk.forced;
  if (!drafting.draft().is_chain()) KeepAccepted(session, verdict.node, pending);
  model_->Truncate(session.sequence, session.computed);

  const Time now = clock_->Now();
  CountRound(chunk, depth, &session.summary);
  if (chunk.drafted > 0 && !drafting.is_local()) {
    std::string drafter = exchange_.DrafterName(session);
    // "": the drafter is gone, but its draft was used.
    if (!drafter.empty()) session.summary.drafter = std::move(drafter);
    exchange_.RecordAccepted(session, chunk.accepted);
  }
  const bool first = session.round == 1;
  if (first) {
    chunk.prompt_logprobs = std::move(session.prompt_logprobs);
    session.times.first_token = now;
    admission_.SharePrompt(session);
  }
  observers_.Notify(&EngineObserver::OnRound, session, chunk, now);
  session.times.last_token = now;
  if (session.planner != nullptr) {
    session.planner->Conclude(
        {.teaches = !first && !drafting.is_unawaited(),
         .accepted = chunk.accepted,
         .drafted = depth,
         .emitted = static_cast<int>(chunk.tokens.size()),
         // The first round includes the prompt, and one that was preempted its time in the queue.
         .seconds = first || session.round_preempted ? kUnknownSeconds
                                                     : Seconds(now - session.round_begun)});
  }

  drafting.EndRound(verdict.node, emitted,
                    std::string(round.acceptance.begin(), round.acceptance.end()));
  ++session.round;
  session.round_preempted = false;
  deliveries_.Make(
      [sink = session.sink, chunk = std::move(chunk)]() mutable { sink->Send(std::move(chunk)); });
  if (is_ruled_out) {
    EndRuledOut(session);
  } else if (end.has_value()) {
    Finish(session, *end);
  } else {
    const int64_t before = mask_scratch_.stepper.steps();
    exchange_.PlanNext(session);  // may make the next round's masks
    session.mask_steps += mask_scratch_.stepper.steps() - before;
  }
}

void Engine::Finish(Session& session, FinishReason reason) {
  const Time now = clock_->Now();
  Summary& s = session.summary;
  s.reason = reason;
  s.prompt_tokens = session.prompt_tokens;
  s.completion_tokens = session.output->tokens();
  s.seed = session.seed;
  s.queue_seconds = Seconds(*session.times.admitted - session.times.submitted);
  s.prefill_seconds = Seconds(session.times.first_token - *session.times.admitted);
  s.decode_seconds = Seconds(now - session.times.first_token);
  admission_.RecordRequest(Seconds(now - *session.times.admitted));
  if (session.planner != nullptr) {
    session.planner->Summarize(&s);
    session.planner->Finish(
        std::span(session.tokens).subspan(static_cast<size_t>(session.prompt_tokens)));
  }
  admission_.CacheText(session);
  observers_.Notify(&EngineObserver::OnEnded, session, Status(), now);
  deliveries_.Make([sink = session.sink, summary = s] { sink->Finish(summary); });
  Remove(session);
}

void Engine::Remove(Session& session) {
  admission_.Release(session);
  exchange_.Close(session);
  sessions_.erase(session.id);
  PublishQueue();
}

std::optional<Time> Engine::NextDeadline() const {
  std::optional<Time> next;
  const auto consider = [&next](Time t) {
    if (t != Time::max()) next = std::min(t, next.value_or(t));
  };
  for (const auto& [id, session] : sessions_) {
    if (session->request.deadline.has_value()) consider(*session->request.deadline);
    if (session->awaits_draft()) consider(session->drafting.deadline());
  }
  return next;
}

EngineSnapshot Engine::Snapshot() const {
  EngineSnapshot snapshot{.total_pages = model_->total_pages(),
                          .free_pages = model_->free_pages(),
                          .cached_pages = admission_.cached_pages(),
                          .draining = exchange_.draining()};
  std::set<std::string_view> clients;
  for (const auto& [id, session] : sessions_) {
    clients.insert(session->request.client);
    const bool running = session->is_running();
    ++(running ? snapshot.running : snapshot.waiting);
    snapshot.sessions.push_back({.id = id,
                                 .phase = !running              ? "waiting"
                                          : session->round == 1 ? "prefill"
                                                                : "decode",
                                 .prompt_tokens = session->prompt_tokens,
                                 .completion_tokens = session->output->tokens(),
                                 .drafter = exchange_.DrafterName(*session),
                                 .drafted_tokens = session->summary.drafted_tokens,
                                 .accepted_tokens = session->summary.accepted_tokens});
  }
  snapshot.clients = static_cast<int>(clients.size());
  snapshot.proposer_shares = proposer_shares_->Get();
  return snapshot;
}

void Engine::PublishQueue() { gate_.Publish(admission_.waiting(), admission_.RetryAfter()); }

EngineLevels Engine::Levels() const {
  EngineLevels levels{.running = admission_.running(),
                      .waiting = admission_.waiting(),
                      .total_pages = model_->total_pages(),
                      .free_pages = model_->free_pages(),
                      .cached_pages = admission_.cached_pages()};
  for (const auto& [id, session] : sessions_) {
    if (!session->is_running()) continue;
    levels.sequence_pages +=
        static_cast<int>(PagesFor(model_->length(session->sequence), model_->page_tokens()));
  }
  return levels;
}

}  // namespace outrider
