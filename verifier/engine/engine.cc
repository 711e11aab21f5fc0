#include "verifier/engine/engine.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "verifier/engine/metrics_observer.h"
#include "verifier/engine/speedup_observer.h"
#include "verifier/engine/trace_observer.h"

namespace outrider {
namespace {

uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// Parents of a forward pass's tokens: `pending` in a chain, the draft behind the last of them.
std::vector<int32_t> TreeParents(const DraftTree& draft, int pending) {
  std::vector<int32_t> parents;
  parents.reserve(static_cast<size_t>(pending) + static_cast<size_t>(draft.size()));
  for (int row = 0; row < pending; ++row) parents.push_back(row - 1);
  for (int node = 1; node <= draft.size(); ++node) {
    parents.push_back(pending - 1 + draft.parent(node));
  }
  return parents;
}

std::vector<TokenId> StopTokens(const GenerationRequest& request, const ModelConfig& config) {
  std::vector<TokenId> stops = request.stop_tokens;
  if (!request.ignore_eos) {
    stops.insert(stops.end(), config.eos_token_ids.begin(), config.eos_token_ids.end());
    stops.insert(stops.end(), request.format_end_tokens.begin(), request.format_end_tokens.end());
  }
  return stops;
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
          .defaults = options.defaults};
}

Engine::Engine(const EngineOptions& options, Model* model, const Tokenizer* tokenizer,
               DraftSource* drafts, VerifierMetrics* metrics, const Clock* clock)
    : options_(options),
      model_(model),
      tokenizer_(tokenizer),
      drafts_(drafts),
      clock_(clock),
      limits_(LimitsOf(options, *model, *tokenizer)),
      device_rounds_(model, limits_.vocab_size),
      prefixes_(model),
      row_budget_(std::min(options.scheduler.token_budget, model->max_batch_tokens())),
      door_(options.max_waiting,
            metrics != nullptr ? &metrics->requests_refused_queue_full : nullptr) {
  if (options.planner.has_value()) planner_.emplace(*options.planner, metrics);
  auto shares = std::make_unique<ProposerShares>();
  proposer_shares_ = shares.get();
  observers_.push_back(std::move(shares));
  if (metrics != nullptr) {
    observers_.push_back(std::make_unique<MetricsObserver>(metrics, model));
    observers_.push_back(std::make_unique<SpeedupObserver>(metrics));
  }
  if (options.tracer != nullptr) {
    observers_.push_back(std::make_unique<TraceObserver>(options.tracer));
  }
}

Engine::~Engine() { CancelAll(Unavailable("the verifier is shutting down")); }

Status Engine::Submit(uint64_t id, GenerationRequest request,
                      std::shared_ptr<GenerationSink> sink) {
  if (draining_) {
    Notify(&EngineObserver::OnRefused, Refusal::kDraining);
    return Unavailable("the verifier is draining and takes no new requests");
  }
  OUTRIDER_TRY(Validate(request, limits_));
  const int waiting = Waiting();
  if (waiting >= options_.max_waiting) {
    Notify(&EngineObserver::OnRefused, Refusal::kQueueFull);
    return ResourceExhausted("the queue is full: " + std::to_string(waiting) +
                             " requests wait; try again later");
  }
  const auto of_client = std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    return entry.second->sequence < 0 && entry.second->request.client == request.client;
  });
  if (of_client >= options_.max_waiting_per_client) {
    Notify(&EngineObserver::OnRefused, Refusal::kClientShare);
    return ResourceExhausted("this client's share of the queue is full: " +
                             std::to_string(of_client) + " of its requests wait; try again later");
  }
  auto session = std::make_unique<Session>();
  session->id = id;
  session->sink = std::move(sink);
  session->tokens = request.prompt;
  session->prompt_tokens = static_cast<int>(request.prompt.size());
  session->max_new_tokens = MaxNewTokens(request, limits_);
  if (request.seed.has_value()) {
    session->seed = *request.seed;
  } else {
    session->seed = options_.draw_seed ? options_.draw_seed() : RandomSeed();
  }
  session->speculation = ResolveSpeculation(request, options_.speculation, limits_);
  session->warper =
      std::make_unique<Warper>(request.sampling, model_->config().vocab_size, limits_.vocab_size);
  session->warper->ObservePrompt(session->tokens);
  const std::vector<TokenId> stop_tokens = StopTokens(request, model_->config());
  session->warper->SuppressBefore(request.min_tokens, stop_tokens);
  session->output = std::make_unique<OutputStream>(
      *tokenizer_, OutputOptions{.stop_strings = request.stop_strings,
                                 .stop_tokens = stop_tokens,
                                 .max_tokens = session->max_new_tokens,
                                 .min_tokens = request.min_tokens});
  if (request.speculation.enabled && drafts_ != nullptr) {
    session->drafting = DraftingState(
        DependsOnDrafts(request, session->speculation) ? kSeededWait : Duration::zero());
  }
  if (planner_.has_value()) session->planner = planner_->Open(request, session->speculation);
  session->request = std::move(request);
  session->submitted = clock_->Now();
  Notify(&EngineObserver::OnSubmitted, *session);
  sessions_.emplace(id, std::move(session));
  TellDoor();
  return Status();
}

void Engine::Cancel(uint64_t id, const Status& reason) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  const std::shared_ptr<GenerationSink> sink = it->second->sink;
  const int tokens = it->second->output->tokens();
  Notify(&EngineObserver::OnEnded, *it->second, reason, clock_->Now());
  Remove(*it->second);
  sink->Fail(Status(reason.code(), reason.message() + ", after " + std::to_string(tokens) +
                                       (tokens == 1 ? " token" : " tokens")));
}

void Engine::CancelAll(const Status& reason) {
  while (!sessions_.empty()) Cancel(sessions_.begin()->first, reason);
}

Session* Engine::NextWaiting() {
  std::map<std::string_view, int> running;
  for (const auto& [id, session] : sessions_) {
    if (session->sequence >= 0) ++running[session->request.client];
  }
  Session* next = nullptr;
  int fewest = 0;
  for (const auto& [id, session] : sessions_) {
    if (session->sequence >= 0) continue;
    const int of_client = running[session->request.client];
    if (next != nullptr && of_client >= fewest) continue;
    next = session.get();
    fewest = of_client;
  }
  return next;
}

void Engine::Admit() {
  while (running_ < options_.max_sessions) {
    Session* const session = NextWaiting();
    if (session == nullptr) return;
    // The last token is always computed: its logits are wanted.
    const std::span<const TokenId> tokens = session->tokens;
    const SequenceId sequence = options_.prefix_cache
                                    ? prefixes_.Fork(tokens.first(tokens.size() - 1))
                                    : model_->NewSequence();
    // Room for what is known, and a page in hand for each running session: else the newcomer would
    // be the first to be preempted. More comes with each step.
    const auto room = [&] {
      return model_->Reserve(sequence, static_cast<int>(tokens.size()) + 1).ok() &&
             model_->free_pages() >= running_;
    };
    bool fits = room();
    while (!fits && prefixes_.EvictOne()) fits = room();
    if (!fits) {
      model_->Release(sequence);
      return;  // a small request does not overtake a large one for ever
    }
    session->sequence = sequence;
    ++running_;
    session->computed = model_->length(sequence);
    const bool is_first = !std::exchange(session->was_admitted, true);
    if (is_first) session->admitted = clock_->Now();
    Notify(&EngineObserver::OnAdmitted, *session, session->computed, is_first);
    // What a lost drafter left is scored first: the next drafter does not know its nodes.
    const DraftingState& drafting = session->drafting;
    if (!drafting.is_off() && !drafting.is_attached() && drafting.draft().empty()) {
      PlanNext(*session);
    }
  }
}

bool Engine::MakeRoom(Session& session, int tokens) {
  while (!model_->Reserve(session.sequence, tokens).ok()) {
    if (prefixes_.EvictOne()) continue;
    const auto youngest = std::find_if(sessions_.rbegin(), sessions_.rend(), [](const auto& entry) {
      return entry.second->sequence >= 0;
    });
    if (youngest->second.get() == &session) return false;
    Preempt(*youngest->second);
  }
  return true;
}

void Engine::Preempt(Session& session) {
  model_->Release(session.sequence);
  session.sequence = -1;
  session.computed = 0;
  --running_;
  Notify(&EngineObserver::OnPreempted, session);
}

Duration Engine::RetryAfter() const {
  constexpr double kUnknown = 1, kLeast = 0.05, kMost = 30;
  const double seconds = request_seconds_ > 0 && running_ > 0
                             ? request_seconds_ * (Waiting() + 1) / running_
                             : kUnknown;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::clamp(seconds, kLeast, kMost)));
}

void Engine::Expire(Time now) {
  std::vector<uint64_t> late;
  for (const auto& [id, session] : sessions_) {
    if (session->request.deadline.has_value() && now >= *session->request.deadline) {
      late.push_back(id);
    } else if (session->awaits_draft() && now >= session->drafting.deadline()) {
      MarkLate(*session);
    }
  }
  for (const uint64_t id : late) {
    Cancel(id, Status(Code::kDeadlineExceeded, "the request's deadline has passed"));
  }
}

bool Engine::Step() {
  Notify(&EngineObserver::OnStepBegin, clock_->Now());
  Admit();
  Expire(clock_->Now());
  TellDoor();  // before the forward pass, which takes long
  std::vector<Session*> running;
  std::vector<Candidate> candidates;
  for (const auto& [id, session] : sessions_) {
    if (session->sequence < 0) continue;
    // A session that waits for its draft can still prefill, all but the token before the draft.
    const int pending = session->pending() - (session->drafting.holds_round() ? 1 : 0);
    if (pending == 0) continue;
    candidates.push_back({.index = static_cast<int>(running.size()),
                          .pending = pending,
                          .draft = session->drafting.draft().size(),
                          .served = session->served,
                          .arrival = id});
    running.push_back(session.get());
  }
  SchedulerOptions scheduler = options_.scheduler;
  scheduler.token_budget = row_budget_;
  std::vector<Share> shares = PickShares(std::move(candidates), scheduler);
  // Pages for what each adds, the oldest session first: it is never the one that has to give way.
  std::sort(shares.begin(), shares.end(),
            [](const Share& a, const Share& b) { return a.index < b.index; });
  std::erase_if(shares, [&](const Share& share) {
    Session& s = *running[static_cast<size_t>(share.index)];
    return s.sequence < 0 ||
           !MakeRoom(s, s.computed + share.pending + (share.last ? s.drafting.draft().size() : 0));
  });
  std::erase_if(shares, [&](const Share& share) {  // gave way to an older one since
    return running[static_cast<size_t>(share.index)]->sequence < 0;
  });
  std::optional<double> forward_seconds;
  if (!shares.empty()) {
    ++step_;
    const Time start = clock_->Now();
    if (const Status status = RunBatch(running, shares); !status.ok()) {
      Log(LogLevel::kError, "forward pass failed", {{"status", status.ToString()}});
      std::vector<uint64_t> ids;
      ids.reserve(shares.size());
      for (const Share& share : shares) {
        ids.push_back(running[static_cast<size_t>(share.index)]->id);
      }
      for (const uint64_t id : ids) Cancel(id, status.Annotate("forward pass"));
    }
    forward_seconds = Seconds(clock_->Now() - start);
  }
  if (drafts_ != nullptr) drafts_->Flush();
  Notify(&EngineObserver::OnStepEnd, Levels(), forward_seconds, clock_->Now());
  return forward_seconds.has_value();
}

Status Engine::RunBatch(const std::vector<Session*>& running, const std::vector<Share>& shares) {
  struct Work {
    Session* session;
    bool last;
    int pending;
    bool on_device;  // the device decides its round
    std::vector<TokenId> tokens;
    std::vector<int32_t> parents;
    std::vector<int32_t> logit_rows;
  };
  std::vector<Work> work;
  work.reserve(shares.size());
  int rows = 0;
  std::vector<SequenceRows> sequences;
  for (const Share& share : shares) {
    Session& s = *running[static_cast<size_t>(share.index)];
    Work& w = work.emplace_back(Work{.session = &s,
                                     .last = share.last && share.pending == s.pending(),
                                     .pending = share.pending});
    w.on_device = w.last && device_rounds_.Takes(s);
    const auto begin = s.tokens.begin() + s.computed;
    w.tokens.assign(begin, begin + share.pending);
    if (w.last) {
      const DraftTree& draft = s.drafting.draft();
      for (int node = 1; node <= draft.size(); ++node) w.tokens.push_back(draft.token(node));
      if (!draft.is_chain()) w.parents = TreeParents(draft, share.pending);
      for (int row = share.pending - 1; row < static_cast<int>(w.tokens.size()); ++row) {
        w.logit_rows.push_back(row);
      }
    }
    const int own = static_cast<int>(w.tokens.size());
    rows += own;
    sequences.push_back({.session = &s, .rows = own, .draft = own - share.pending});
  }
  std::vector<ForwardSequence> batch;
  batch.reserve(work.size());
  device_rounds_.Begin();
  for (const Work& w : work) {
    batch.push_back({.sequence = w.session->sequence,
                     .tokens = w.tokens,
                     .parents = w.parents,
                     .logit_rows = w.logit_rows,
                     .verify = w.on_device});
    if (w.on_device) {
      device_rounds_.Add(*w.session);
    } else {
      device_rounds_.Skip(static_cast<int>(w.logit_rows.size()));
    }
  }
  Notify(&EngineObserver::OnForward,
         ForwardPass{.sequences = sequences, .rows = rows, .device_rounds = device_rounds_.size()});
  const Time start = clock_->Now();
  ForwardOutput output;
  OUTRIDER_TRY(model_->Forward(batch, /*want_hidden=*/false, &output));
  device_rounds_.Run();
  const double seconds = Seconds(clock_->Now() - start);
  constexpr double kStepGain = 1.0 / 16;
  step_seconds_ =
      step_seconds_ > 0 ? step_seconds_ + kStepGain * (seconds - step_seconds_) : seconds;
  AdjustBudget(rows, seconds);
  int64_t context = 0;

  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  float* logits = output.logits;
  for (Work& w : work) {
    Session& s = *w.session;
    s.served = step_;
    context += s.computed;
    if (!w.last) {
      s.computed += static_cast<int>(w.tokens.size());
      s.drafting.Postpone(clock_->Now());  // until now the draft was not waited for
      continue;
    }
    s.computed = static_cast<int>(s.tokens.size());  // the draft's KV is decided by the verdict
    const size_t entries = w.on_device ? 0 : w.logit_rows.size() * vocab;
    std::vector<float> raw_rows;
    if (s.request.logprobs.has_value()) raw_rows.assign(logits, logits + entries);
    DecidedRound round = w.on_device
                             ? device_rounds_.Next(s)
                             : DecideOnHost(s, logits, static_cast<int>(vocab), limits_.vocab_size);
    logits += entries;
    if (round.broken_depth >= 0) {
      EndBroken(s, round.broken_depth);
    } else {
      Advance(s, std::move(round), w.pending, raw_rows);
    }
  }
  if (planner_.has_value()) {
    planner_->OnStep(static_cast<int>(work.size()), rows, context, Seconds(clock_->Now() - start));
  }
  return Status();
}

void Engine::AdjustBudget(int rows, double seconds) {
  if (options_.step_target_seconds <= 0) return;
  constexpr double kShrink = 0.85, kGrow = 1.05;
  const int most = std::min(options_.scheduler.token_budget, model_->max_batch_tokens());
  // One session's largest draft always fits, beside the part that is kept for prompts.
  const int least = std::min(most, (options_.max_draft_tokens + 8) * 4 / 3 + 1);
  double budget = row_budget_;
  if (seconds > options_.step_target_seconds) {
    budget = std::min(budget, static_cast<double>(rows)) * kShrink;
  } else if (rows * 2 > row_budget_) {  // an idle engine says nothing of a full one
    budget = budget * kGrow + 1;
  }
  row_budget_ = std::clamp(static_cast<int>(budget), least, most);
}

void Engine::EndBroken(Session& session, int depth) {
  const size_t position = session.tokens.size() + static_cast<size_t>(depth);
  const Status status =
      Internal("the model's logits are not finite at position " + std::to_string(position));
  Log(LogLevel::kError, "request ended: its logits are NaN or infinite",
      {{"session", session.id}, {"reason", status.message()}});
  Notify(&EngineObserver::OnNotFinite, session);
  Cancel(session.id, status);
}

std::vector<TokenLogprobs> Engine::Logprobs(const Session& session, int node,
                                            std::span<const TokenId> tokens,
                                            std::span<const float> raw_rows) const {
  // The row in front of each token: the root's, then those of the nodes on the path.
  std::vector<int> path;
  for (; node != DraftTree::kRoot; node = session.drafting.draft().parent(node))
    path.push_back(node);
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

void Engine::Advance(Session& session, DecidedRound round, int pending,
                     std::span<const float> raw_rows) {
  const Verdict& verdict = round.verdict;
  if (round.first_token.has_value()) {
    Notify(&EngineObserver::OnFirstTokenAcceptance, *round.first_token);
  }
  DraftingState& drafting = session.drafting;
  std::vector<TokenId> emitted = drafting.draft().Path(verdict.node);
  emitted.push_back(verdict.next);
  const int drafted = drafting.draft().size();
  const int depth = drafting.draft().max_depth();
  const int computed = session.computed;
  Chunk chunk{.drafted = drafted};
  std::optional<FinishReason> end;
  for (const TokenId token : emitted) {
    session.tokens.push_back(token);
    session.warper->ObserveOutput(token);
    chunk.tokens.push_back(token);
    end = session.output->Push(token, &chunk.text);
    if (end.has_value()) break;
  }
  if (session.request.logprobs.has_value()) {
    chunk.logprobs = Logprobs(session, verdict.node, chunk.tokens, raw_rows);
  }
  // What a stop cut off was never output: it does not count as accepted.
  chunk.accepted = std::min(verdict.accepted, static_cast<int>(chunk.tokens.size()));
  session.computed = computed + chunk.accepted;
  if (!drafting.draft().is_chain()) KeepAccepted(session, verdict.node, pending);
  model_->Truncate(session.sequence, session.computed);

  const Time now = clock_->Now();
  Summary& stats = session.summary;
  ++stats.rounds;
  if (drafted > 0) {
    ++stats.drafted_rounds;
    stats.drafted_tokens += drafted;
    if (!drafting.is_local()) {
      std::string drafter = drafts_->DrafterName(session.id);
      if (!drafter.empty())
        stats.drafter = std::move(drafter);  // "": it is gone, its draft was not
    }
    stats.accepted_tokens += chunk.accepted;
    if (static_cast<int>(stats.accepted_per_position.size()) < depth) {
      stats.accepted_per_position.resize(static_cast<size_t>(depth));
    }
    for (int i = 0; i < chunk.accepted; ++i) ++stats.accepted_per_position[static_cast<size_t>(i)];
  }
  const bool first = session.round == 1;
  if (first) {
    session.first_token = now;
    KeepPrompt(session);
  }
  Notify(&EngineObserver::OnRound, session, chunk, now);
  session.last_token = now;
  if (session.planner != nullptr) {
    session.planner->Conclude(
        {.teaches = !first && !end.has_value() && !drafting.is_unawaited(),
         .accepted = chunk.accepted,
         .drafted = depth,
         .emitted = static_cast<int>(chunk.tokens.size()),
         // The first round has the prompt in it.
         .seconds = first ? kUnknownSeconds : Seconds(now - session.round_begun)});
  }

  drafting.EndRound(verdict.node, verdict.accepted, emitted, std::move(round.acceptance));
  ++session.round;
  session.sink->Send(std::move(chunk));
  if (end.has_value()) {
    Finish(session, *end);
  } else {
    PlanNext(session);
  }
}

void Engine::KeepPrompt(const Session& session) {
  if (!options_.prefix_cache) return;
  const int whole = session.prompt_tokens / model_->page_tokens() * model_->page_tokens();
  if (whole == 0) return;
  if (const Result<SequenceId> fork = model_->Fork(session.sequence, whole); fork.ok()) {
    prefixes_.Insert(std::span(session.tokens).first(static_cast<size_t>(whole)), *fork);
  }
}

void Engine::Finish(Session& session, FinishReason reason) {
  const Time now = clock_->Now();
  Summary& s = session.summary;
  s.reason = reason;
  s.prompt_tokens = session.prompt_tokens;
  s.completion_tokens = session.output->tokens();
  s.seed = session.seed;
  s.queue_seconds = Seconds(session.admitted - session.submitted);
  s.prefill_seconds = Seconds(session.first_token - session.admitted);
  s.decode_seconds = Seconds(now - session.first_token);
  constexpr double kGain = 0.1;
  const double took = Seconds(now - session.admitted);
  request_seconds_ =
      request_seconds_ > 0 ? request_seconds_ + kGain * (took - request_seconds_) : took;
  if (session.planner != nullptr) {
    session.planner->Summarize(&s);
    session.planner->Finish(
        std::span(session.tokens).subspan(static_cast<size_t>(session.prompt_tokens)));
  }
  if (options_.prefix_cache) {
    prefixes_.Insert(std::span(session.tokens).first(static_cast<size_t>(session.computed)),
                     std::exchange(session.sequence, -1));
    --running_;
  }
  Notify(&EngineObserver::OnEnded, session, Status(), now);
  const std::shared_ptr<GenerationSink> sink = session.sink;
  const Summary summary = s;
  Remove(session);
  sink->Finish(summary);
}

void Engine::Remove(Session& session) {
  if (session.sequence >= 0) {
    model_->Release(session.sequence);
    --running_;
  }
  if (session.drafting.is_attached()) drafts_->Close(session.id);
  sessions_.erase(session.id);
  TellDoor();
}

std::optional<Time> Engine::NextDeadline() const {
  std::optional<Time> next;
  const auto consider = [&next](Time t) { next = std::min(t, next.value_or(t)); };
  for (const auto& [id, session] : sessions_) {
    if (session->request.deadline.has_value()) consider(*session->request.deadline);
    if (session->awaits_draft()) consider(session->drafting.deadline());
  }
  return next;
}

EngineSnapshot Engine::Snapshot() const {
  EngineSnapshot snapshot{.total_pages = model_->total_pages(),
                          .free_pages = model_->free_pages(),
                          .cached_pages = prefixes_.Pages(),
                          .draining = draining_};
  std::set<std::string_view> clients;
  for (const auto& [id, session] : sessions_) {
    clients.insert(session->request.client);
    const bool running = session->sequence >= 0;
    ++(running ? snapshot.running : snapshot.waiting);
    snapshot.sessions.push_back({.id = id,
                                 .phase = !running              ? "waiting"
                                          : session->round == 1 ? "prefill"
                                                                : "decode",
                                 .prompt_tokens = session->prompt_tokens,
                                 .completion_tokens = session->output->tokens(),
                                 .drafter = drafts_ != nullptr ? drafts_->DrafterName(id) : "",
                                 .drafted_tokens = session->summary.drafted_tokens,
                                 .accepted_tokens = session->summary.accepted_tokens});
  }
  snapshot.clients = static_cast<int>(clients.size());
  snapshot.proposer_shares = proposer_shares_->Get();
  return snapshot;
}

void Engine::TellDoor() { door_.Publish(Waiting(), RetryAfter()); }

EngineLevels Engine::Levels() const {
  EngineLevels levels{.running = running_,
                      .waiting = Waiting(),
                      .total_pages = model_->total_pages(),
                      .free_pages = model_->free_pages(),
                      .cached_pages = prefixes_.Pages()};
  const int page = model_->page_tokens();
  for (const auto& [id, session] : sessions_) {
    if (session->sequence < 0) continue;
    levels.sequence_pages += (model_->length(session->sequence) + page - 1) / page;
  }
  return levels;
}

}  // namespace outrider
