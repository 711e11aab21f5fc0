#include "verifier/engine/engine.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/math/accept.h"
#include "common/math/coins.h"
#include "common/math/softmax.h"
#include "verifier/rules/verify.h"

namespace outrider {
namespace {

// Of a drawn node. `row`: the target's, in front of it.
char NodeAcceptance(const DraftTree& draft, int node, std::span<const float> row) {
  const TokenId token = draft.token(node);
  return static_cast<char>(AcceptanceByte(static_cast<double>(row[static_cast<size_t>(token)]),
                                          Probability(draft.law(draft.parent(node)), token)));
}

// Whether the drafter is told how likely the draft's nodes were to be accepted.
bool TellsAcceptance(const Session& session) {
  // A seed that comes again must not meet a head that has learned from its coins.
  return session.drafting.plan().stop.kind == StopRule::Kind::kHead &&
         !session.drafting.is_local() && !DependsOnDrafts(session.request, session.speculation);
}

uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// `waited`: since the request came (first) or since the chunk before.
void CountRound(VerifierMetrics& metrics, const Chunk& chunk, bool first, double waited) {
  metrics.rounds_total.Increment();
  metrics.generation_tokens_total.Increment(static_cast<double>(chunk.tokens.size()));
  if (chunk.drafted == 0) {
    metrics.plain_rounds_total.Increment();
  } else {
    metrics.spec_decode_num_drafts_total.Increment();
    metrics.spec_decode_num_draft_tokens_total.Increment(chunk.drafted);
    metrics.spec_decode_num_accepted_tokens_total.Increment(chunk.accepted);
    metrics.CountAcceptedPositions(chunk.accepted);
  }
  if (first) {
    metrics.time_to_first_token_seconds.Observe(waited);
    return;
  }
  // A round's tokens arrive together: each has its share of the wait.
  const auto n = static_cast<double>(chunk.tokens.size());
  for (size_t i = 0; i < chunk.tokens.size(); ++i) {
    metrics.inter_token_latency_seconds.Observe(waited / n);
  }
}

void CountFirstToken(VerifierMetrics& metrics, const FirstTokenAcceptance& acceptance) {
  metrics.spec_decode_multipath_drafts_total.Increment();
  metrics.spec_decode_kseq_acceptance_total.Increment(acceptance.kseq);
  metrics.spec_decode_optimal_acceptance_total.Increment(acceptance.optimum);
}

void CountFinished(VerifierMetrics& metrics, const Summary& summary, double seconds) {
  (summary.reason == FinishReason::kStop ? metrics.request_success_stop
                                         : metrics.request_success_length)
      .Increment();
  metrics.e2e_request_latency_seconds.Observe(seconds);
  metrics.request_prefill_time_seconds.Observe(summary.prefill_seconds);
  metrics.request_decode_time_seconds.Observe(summary.decode_seconds);
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

// `depth`: of the row, behind the session's tokens.
Status NotFinite(const Session& session, int depth) {
  const size_t position = session.tokens.size() + static_cast<size_t>(depth);
  return Internal("the model's logits are not finite at position " + std::to_string(position));
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
      metrics_(metrics),
      clock_(clock),
      limits_(LimitsOf(options, *model, *tokenizer)),
      device_rounds_(model, limits_.vocab_size),
      prefixes_(model),
      row_budget_(std::min(options.scheduler.token_budget, model->max_batch_tokens())),
      door_(options.max_waiting,
            metrics != nullptr ? &metrics->requests_refused_queue_full : nullptr) {
  if (options.planner.has_value()) planner_.emplace(*options.planner, metrics);
}

Engine::~Engine() { CancelAll(Unavailable("the verifier is shutting down")); }

Status Engine::Submit(uint64_t id, GenerationRequest request,
                      std::shared_ptr<GenerationSink> sink) {
  if (draining_) {
    if (metrics_ != nullptr) metrics_->requests_refused_draining.Increment();
    return Unavailable("the verifier is draining and takes no new requests");
  }
  OUTRIDER_TRY(Validate(request, limits_));
  const int waiting = Waiting();
  if (waiting >= options_.max_waiting) {
    if (metrics_ != nullptr) metrics_->requests_refused_queue_full.Increment();
    return ResourceExhausted("the queue is full: " + std::to_string(waiting) +
                             " requests wait; try again later");
  }
  const auto of_client = std::count_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    return entry.second->sequence < 0 && entry.second->request.client == request.client;
  });
  if (of_client >= options_.max_waiting_per_client) {
    if (metrics_ != nullptr) metrics_->requests_refused_client_share.Increment();
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
  session->trace = SessionTrace::Open(options_.tracer, session->request);
  session->submitted = clock_->Now();
  sessions_.emplace(id, std::move(session));
  TellDoor();
  return Status();
}

void Engine::Cancel(uint64_t id, const Status& reason) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  if (metrics_ != nullptr) metrics_->request_success_abort.Increment();
  const std::shared_ptr<GenerationSink> sink = it->second->sink;
  const int tokens = it->second->output->tokens();
  if (it->second->trace != nullptr) it->second->trace->End(*it->second, clock_->Now(), reason);
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
    if (metrics_ != nullptr) {
      metrics_->prefix_cache_queries_total.Increment(static_cast<double>(tokens.size()));
      metrics_->prefix_cache_hits_total.Increment(session->computed);
    }
    if (!session->was_admitted) {  // else it was preempted
      session->was_admitted = true;
      session->admitted = clock_->Now();
      if (metrics_ != nullptr) {
        metrics_->prompt_tokens_total.Increment(session->prompt_tokens);
        metrics_->request_queue_time_seconds.Observe(
            Seconds(session->admitted - session->submitted));
      }
    }
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
  session.decoding_since.reset();
  --running_;
  if (metrics_ != nullptr) metrics_->num_preemptions_total.Increment();
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
  if (idle_) step_began_ = clock_->Now();
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
    if (metrics_ != nullptr) {
      metrics_->engine_step_seconds.Observe(Seconds(clock_->Now() - start));
    }
  }
  if (drafts_ != nullptr) drafts_->Flush();
  UpdateGauges();
  idle_ = shares.empty();
  if (!idle_) CountTime();
  return !idle_;
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
  step_rows_ = DecodingSessions();
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
    (s.decoding_since.has_value() ? step_rows_.scored : step_rows_.prompt) += own;
    step_rows_.drafts = step_rows_.drafts || own > share.pending;
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
  const Time start = clock_->Now();
  ForwardOutput output;
  OUTRIDER_TRY(model_->Forward(batch, /*want_hidden=*/false, &output));
  device_rounds_.Run();
  const double seconds = Seconds(clock_->Now() - start);
  constexpr double kStepGain = 1.0 / 16;
  step_seconds_ =
      step_seconds_ > 0 ? step_seconds_ + kStepGain * (seconds - step_seconds_) : seconds;
  AdjustBudget(rows, seconds);
  if (metrics_ != nullptr) metrics_->batch_rows.Observe(rows);
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
    const Result<Verdict> verdict = w.on_device ? TakeVerdict(s) : Verify(s, logits);
    logits += entries;
    if (verdict.ok()) {
      Advance(s, *verdict, w.pending, raw_rows);
    } else {
      EndBroken(s, verdict.status());
    }
  }
  if (metrics_ != nullptr) {
    metrics_->device_rounds_total.Increment(device_rounds_.size());
    const int64_t bytes = model_->bytes_to_host();
    metrics_->device_to_host_bytes_total.Increment(
        static_cast<double>(bytes - std::exchange(bytes_to_host_, bytes)));
    const GraphCounts now = model_->graph_counts(), before = std::exchange(graphs_, now);
    metrics_->device_graph_launches_total.Increment(
        static_cast<double>(now.launches - before.launches));
    metrics_->device_graph_captures_total.Increment(
        static_cast<double>(now.captures - before.captures));
  }
  if (planner_.has_value()) {
    planner_->OnStep(static_cast<int>(work.size()), rows, context, Seconds(clock_->Now() - start));
  }
  return Status();
}

PlainTime::Step Engine::DecodingSessions() const {
  PlainTime::Step step;
  for (const auto& [id, session] : sessions_) {
    if (!session->decoding_since.has_value()) continue;
    ++step.decoding;
    step.drafts = step.drafts || session->drafting.holds_round();
  }
  return step;
}

void Engine::CountTime() {
  const Time now = clock_->Now();
  plain_time_.OnStep(step_rows_, Seconds(now - std::exchange(step_began_, now)));
  for (const EndedRound& round : ended_rounds_) {
    if (metrics_ != nullptr && round.since.has_value()) {
      const double seconds = Seconds(now - round.since->at);
      metrics_->round_seconds_total.Increment(seconds);
      metrics_->round_seconds_if_plain_total.Increment(plain_time_.Of(
          {.seconds = seconds,
           .prompt_seconds = plain_time_.prompt_seconds() - round.since->prompt_seconds,
           .tokens = round.tokens,
           .asked = round.asked}));
    }
    const auto it = sessions_.find(round.session);
    if (it != sessions_.end()) it->second->decoding_since = {now, plain_time_.prompt_seconds()};
  }
  ended_rounds_.clear();
}

void Engine::CountProposer(const Session& session) {
  // The weight of a round a round later: that of the last 500 is 63 % of all.
  constexpr double kKept = 1 - 1.0 / 500;
  Proposer::Kind kind = Proposer::Kind::kNone;
  if (!session.drafting.draft().empty()) {
    kind = session.drafting.is_local() ? session.planner->proposer() : Proposer::Kind::kModel;
  }
  for (double& weight : proposed_) weight *= kKept;
  proposed_[static_cast<size_t>(kind)] += 1;
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

Result<Verdict> Engine::Verify(Session& session, float* rows) {
  const DraftTree& draft = session.drafting.draft();
  std::vector<bool> is_broken(static_cast<size_t>(draft.size()) + 1, false);
  const Verdict verdict = Decide(session, rows, &is_broken);
  // Only the rows that plain decoding would have read count. A rule takes a broken row as the
  // distribution that the logits processors make of it, so a draft cannot end a request by leading
  // elsewhere, and what it changes of the text's distribution is nothing.
  int first_broken = -1;
  for (int node = verdict.node; node >= 0;
       node = node == DraftTree::kRoot ? -1 : draft.parent(node)) {
    if (is_broken[static_cast<size_t>(node)]) first_broken = node;
  }
  if (first_broken < 0) return verdict;
  return NotFinite(session, draft.depth(first_broken));
}

void Engine::EndBroken(Session& session, const Status& status) {
  Log(LogLevel::kError, "request ended: its logits are NaN or infinite",
      {{"session", session.id}, {"reason", status.message()}});
  if (metrics_ != nullptr) metrics_->requests_not_finite.Increment();
  Cancel(session.id, status);
}

Verdict Engine::Decide(Session& session, float* rows, std::vector<bool>* is_broken) {
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  const DraftTree& draft = session.drafting.draft();
  const auto row = [&](int node) {
    return std::span<float>(rows + static_cast<size_t>(node) * vocab, vocab);
  };
  // Before it is overwritten.
  const auto judge = [&](int node) {
    (*is_broken)[static_cast<size_t>(node)] =
        !IsFinite(row(node).first(static_cast<size_t>(limits_.vocab_size)));
  };
  if (session.request.sampling.greedy()) {
    return VerifyMatch(draft, [&](int node) {
      judge(node);
      return session.warper->Argmax(row(node), draft.Path(node));
    });
  }
  const auto position = static_cast<uint32_t>(session.tokens.size());
  if (session.speculation.rule == Rule::kGumbel) {
    return VerifyMatch(draft, [&](int node) {
      judge(node);
      const auto depth = static_cast<uint32_t>(draft.depth(node));
      return session.warper->Race(row(node), draft.Path(node), 1, session.seed,
                                  position + depth)[0];
    });
  }
  // Rows are warped as the rule comes by them: most of a wide tree's never are.
  std::vector<bool> warped(static_cast<size_t>(draft.size()) + 1, false);
  const TargetRowFn target = [&](int node) -> std::span<const float> {
    if (!warped[static_cast<size_t>(node)]) {
      warped[static_cast<size_t>(node)] = true;
      judge(node);
      session.warper->Warp(row(node), draft.Path(node));
    }
    return row(node);
  };
  if (draft.empty()) {
    const double coin = Coin(session.seed, session.round, 0, Purpose::kPlainToken);
    return {.node = DraftTree::kRoot, .accepted = 0, .next = SampleRow(target(0), coin)};
  }
  const Verdict verdict =
      VerifyRound(session.speculation.rule, draft, target, static_cast<int>(vocab), session.seed,
                  session.round, position);
  std::string acceptance;
  if (TellsAcceptance(session)) {
    for (int node = 1; node <= draft.size() && warped[static_cast<size_t>(draft.parent(node))];
         ++node) {
      acceptance += NodeAcceptance(draft, node, target(draft.parent(node)));
    }
  }
  session.drafting.SetAcceptance(std::move(acceptance));
  if (metrics_ != nullptr && draft.draws(DraftTree::kRoot).size() > 1) {
    CountFirstToken(*metrics_, AcceptanceOfFirstToken(draft, target(DraftTree::kRoot)));
  }
  return verdict;
}

Result<Verdict> Engine::TakeVerdict(Session& session) {
  DeviceRound round = device_rounds_.Next(session);
  if (round.broken_depth >= 0) return NotFinite(session, round.broken_depth);
  const bool sampled =
      !session.request.sampling.greedy() && session.speculation.rule != Rule::kGumbel;
  const DraftTree& draft = session.drafting.draft();
  if (!sampled || draft.empty()) return round.verdict;
  session.drafting.SetAcceptance(TellsAcceptance(session) ? std::move(round.acceptance) : "");
  if (metrics_ != nullptr && draft.draws(DraftTree::kRoot).size() > 1) {
    CountFirstToken(*metrics_, round.first_token);
  }
  return round.verdict;
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

void Engine::Advance(Session& session, const Verdict& verdict, int pending,
                     std::span<const float> raw_rows) {
  DraftingState& drafting = session.drafting;
  std::vector<TokenId> emitted = drafting.draft().Path(verdict.node);
  emitted.push_back(verdict.next);
  const int drafted = drafting.draft().size();
  const int depth = drafting.draft().max_depth();
  CountProposer(session);
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
  if (metrics_ != nullptr) {
    const Duration waited = now - (first ? session.submitted : session.last_token);
    CountRound(*metrics_, chunk, first, Seconds(waited));
  }
  ended_rounds_.push_back({.session = session.id,
                           .since = session.decoding_since,
                           .tokens = static_cast<int>(chunk.tokens.size()),
                           .asked = drafted > 0 || drafting.was_asked()});
  if (session.trace != nullptr) session.trace->OnRound(session, chunk, now);
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

  drafting.EndRound(verdict.node, verdict.accepted, emitted);
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
  if (metrics_ != nullptr) CountFinished(*metrics_, s, Seconds(now - session.submitted));
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
  if (session.trace != nullptr) session.trace->End(session, now, Status());
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
  const double rounds = std::accumulate(proposed_.begin(), proposed_.end(), 0.0);
  for (size_t kind = 0; rounds > 0 && kind < proposed_.size(); ++kind) {
    snapshot.proposer_shares[kind] = proposed_[kind] / rounds;
  }
  return snapshot;
}

void Engine::TellDoor() { door_.Publish(Waiting(), RetryAfter()); }

void Engine::UpdateGauges() {
  if (metrics_ == nullptr) return;
  metrics_->num_requests_running.Set(running_);
  metrics_->num_requests_waiting.Set(Waiting());
  metrics_->kv_pages_used.Set(model_->total_pages() - model_->free_pages());
  metrics_->prefix_cache_pages.Set(prefixes_.Pages());
  int held = 0;
  for (const auto& [id, session] : sessions_) {
    if (session->sequence < 0) continue;
    held += (model_->length(session->sequence) + model_->page_tokens() - 1) / model_->page_tokens();
  }
  metrics_->kv_cache_requests_perc.Set(
      std::min(1.0, static_cast<double>(held) / model_->total_pages()));
  metrics_->kv_cache_usage_perc.Set(1.0 - static_cast<double>(model_->free_pages()) /
                                              model_->total_pages());
}

}  // namespace outrider
