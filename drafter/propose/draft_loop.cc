#include "drafter/propose/draft_loop.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/log.h"

namespace outrider {

DraftLoop::DraftLoop(Model* model, const DraftLoopOptions& options, const Clock* clock,
                     DraftObserver* observer)
    : model_(model),
      options_(options),
      clock_(clock),
      traces_(options.tracer),
      head_(options.head, &observers_),
      capture_(options.recorder, model->config().hidden_size),
      sessions_(options.max_sessions, model, &observers_, options.prefix_cache),
      lookahead_({.tokens = options.ahead_tokens,
                  .max_rows = std::min(options.max_ahead_rows, step_tokens())},
                 model, &sessions_, &observers_),
      sender_(&sessions_, &lookahead_, &observers_, clock),
      forward_(model, step_tokens()),
      depths_({.sessions = &sessions_,
               .forward = &forward_,
               .head = &head_,
               .sender = &sender_,
               .observers = &observers_,
               .clock = clock},
              options.chunk_depths),
      chains_(&depths_) {
  if (options.tracer != nullptr) observers_.Add(&traces_);
  if (observer != nullptr) observers_.Add(observer);
  if (options.grammars != nullptr) compiler_.emplace(options.grammars, this);
}

void DraftLoop::Stop() {
  stopped_ = true;
  inbox_.Close();
}

void DraftLoop::Run() {
  while (!stopped_) {
    if (Step()) continue;
    for (LinkEvent& event : inbox_.Drain(std::nullopt)) Handle(std::move(event));
    sender_.Flush();
  }
}

bool DraftLoop::Step() {
  RefillGrammarShares();
  std::vector<LinkEvent> events = inbox_.Take();
  for (LinkEvent& event : events) Handle(std::move(event));
  const bool ran = RunPass();
  sender_.Flush();
  return ran || !events.empty();
}

void DraftLoop::RefillGrammarShares() {
  auto& connections = sessions_.connections();
  if (connections.size() == 1) {
    connections.begin()->second.bounds.grammar_share->SetUnlimited();
    return;
  }
  const auto sharers = std::count_if(connections.begin(), connections.end(),
                                     [](const auto& entry) { return entry.second.HasGrammars(); });
  for (auto& [id, connection] : connections) {
    connection.bounds.grammar_share->Refill(std::max(static_cast<int>(sharers), 1));
  }
}

int DraftLoop::step_tokens() const {
  return std::min(options_.max_step_tokens, model_->max_batch_tokens());
}

bool DraftLoop::RunPass() {
  std::vector<PassShare> shares =
      PlanPass(sessions_, {.tokens = step_tokens(), .session_tokens = options_.max_chunk_tokens});
  if (const int depths = chains_.Depths(shares); depths > 1) {
    chains_.Run(shares, depths);
    return true;
  }
  if (shares.empty()) shares = lookahead_.Plan();
  if (shares.empty()) return false;
  depths_.Run(shares);
  return true;
}

void DraftLoop::Handle(LinkEvent event) {
  if (auto* welcome = std::get_if<WelcomeEvent>(&event.message)) {
    Connect(event.connection, std::move(*welcome));
    return;
  }
  VerifierConnection* connection = sessions_.Find(event.connection);
  if (connection == nullptr) return;  // it ended before it was welcomed
  if (auto* open = std::get_if<SessionOpening>(&event.message)) {
    Handle(*connection, event.connection, *open);
  } else if (auto* compiled = std::get_if<CompiledEvent>(&event.message)) {
    Handle(*connection, *compiled);
  } else if (auto* decisions = std::get_if<std::vector<SessionVerdict>>(&event.message)) {
    for (const SessionVerdict& decision : *decisions) Handle(*connection, decision);
  } else if (auto* close = std::get_if<CloseEvent>(&event.message)) {
    connection->compiling.erase(close->session);
    sessions_.Close(*connection, close->session);
  } else if (std::holds_alternative<DrainEvent>(event.message)) {
    Log(LogLevel::kInfo, "verifier drains",
        {{"connection", event.connection}, {"sessions", connection->sessions.size()}});
  } else if (const auto* wanted = std::get_if<WantedEvent>(&event.message)) {
    connection->wanted = wanted->wanted;
  } else {
    if (compiler_.has_value()) compiler_->Forget(event.connection);
    sessions_.Disconnect(event.connection);
  }
}

void DraftLoop::Connect(uint64_t id, WelcomeEvent event) {
  const ModelConfig& config = model_->config();
  int allowed = config.vocab_size;
  std::vector<uint32_t> shared;
  if (event.vocabulary == nullptr) {
    allowed = std::min(allowed, event.welcome.vocab_limit);
  } else {
    shared = event.vocabulary->SharedMask(config.vocab_size);
  }
  if (options_.tokenizer_vocab > 0) allowed = std::min(allowed, options_.tokenizer_vocab);
  sessions_.Connect(id, {.link = std::move(event.link),
                         .bounds = {
                             .vocab_size = config.vocab_size,
                             .allowed = allowed,
                             .max_context = config.max_position_embeddings,
                             .max_draft_length = options_.max_draft_length,
                             .max_draft_tokens = options_.max_draft_tokens,
                             // A depth is computed in one pass.
                             .max_sequences = step_tokens(),
                             .eos_token_ids = config.eos_token_ids,
                             .distribution_limits = event.welcome.distribution_limits,
                             .vocabulary = std::move(event.vocabulary),
                             .shared_tokens = std::move(shared),
                             .head = head_.state(),
                             .grammar_share = std::make_shared<GrammarShare>(&mask_scratch_),
                         }});
}

void DraftLoop::Handle(VerifierConnection& connection, uint64_t id, const SessionOpening& open) {
  sessions_.Close(connection, open.session);
  connection.compiling.erase(open.session);
  const Status opened = Open(connection, id, open);
  if (!opened.ok()) sessions_.Refuse(connection, open.session, open.plan.round, opened);
}

void DraftLoop::Handle(VerifierConnection& connection, const CompiledEvent& compiled) {
  const SessionOpening& open = compiled.opening;
  const auto waits = connection.compiling.find(open.session);
  if (waits == connection.compiling.end() || waits->second != compiled.ticket) return;  // too late
  connection.compiling.erase(waits);
  const Status opened = Open(connection, open, compiled.masks);
  if (!opened.ok()) sessions_.Refuse(connection, open.session, open.plan.round, opened);
}

Status DraftLoop::Open(VerifierConnection& connection, uint64_t id, const SessionOpening& open) {
  const SharedValue<GrammarSource>& grammar = open.sampling.grammar;
  if (!grammar.has_value() || !compiler_.has_value()) return Open(connection, open, nullptr);
  if (auto masks = compiler_->Find(*grammar)) return Open(connection, open, std::move(masks));
  OUTRIDER_TRY(DraftSession::CheckTokens(open, connection.bounds));
  OUTRIDER_ASSIGN(connection.compiling[open.session], compiler_->Submit(id, open));
  return Status();
}

Status DraftLoop::Open(VerifierConnection& connection, const SessionOpening& open,
                       std::shared_ptr<grammar::GrammarMasks> masks) {
  OUTRIDER_TRY(sessions_.MakeRoom(connection));
  OUTRIDER_ASSIGN(DraftSession session,
                  DraftSession::Create(open, &connection.bounds, std::move(masks)));
  const std::optional<uint64_t> prompt =
      capture_.PromptToRecord(open, session, connection.bounds.distribution_limits);
  HeldSession& held = sessions_.Add(connection, open.session, std::move(session));
  held.prompt = prompt;
  observers_.Notify(&DraftObserver::OnOpened, held, open, clock_->Now());
  return Begin(held);
}

void DraftLoop::Handle(VerifierConnection& connection, const SessionVerdict& verdict) {
  // The round went on before the session's grammar was compiled.
  connection.compiling.erase(verdict.session);
  const auto found = connection.sessions.find(verdict.session);
  const Status applied = found == connection.sessions.end()
                             ? FailedPrecondition("the session is not held")
                             : Apply(found->second, verdict);
  if (!applied.ok()) {
    sessions_.Refuse(connection, verdict.session, verdict.plan.round, applied);
  }
}

Status DraftLoop::Apply(HeldSession& held, const SessionVerdict& verdict) {
  head_.OnVerdict(held, verdict, clock_->Now());
  capture_.OnVerdict(held, verdict);
  SessionLookahead::Hit hit = lookahead_.TakeMatch(held, verdict);
  if (hit.mirror != nullptr) {
    held.mirror = std::move(hit.mirror);
    sessions_.StampPlan(held, clock_->Now());
    if (hit.is_sent) {
      sender_.MarkSent(held);
    } else {
      sender_.QueueDraft(held);
    }
    return Status();
  }
  if (hit.is_sent) {
    return ResourceExhausted("the pages of a draft that was sent early were needed");
  }
  Mirror& mirror = *held.mirror;
  OUTRIDER_ASSIGN(const int node, mirror.session.Apply(verdict));
  mirror.fed = {};
  mirror.kv.Keep(node, mirror.session.kv_length());
  return Begin(held);
}

Status DraftLoop::Begin(HeldSession& held) {
  sessions_.StampPlan(held, clock_->Now());
  return sessions_.SecurePages(held);
}

}  // namespace outrider
