#include "drafter/propose/draft_loop.h"

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "common/base/log.h"

namespace outrider {
namespace {

// A session this close to its logits is drafting (a verdict to catch up with, the next token); one
// that is further away reads a prompt.
constexpr size_t kCatchUpTokens = 32;

int Or(int value, int otherwise) { return value > 0 ? value : otherwise; }

}  // namespace

DraftLoop::DraftLoop(Model* model, const DraftLoopOptions& options, const Clock* clock,
                     DraftObserver* observer)
    : model_(model),
      options_(options),
      clock_(clock),
      observer_(observer),
      inbox_(options.inbox_capacity),
      budget_(model) {}

void DraftLoop::Stop() {
  stopped_ = true;
  inbox_.Close();
}

void DraftLoop::Run() {
  while (!stopped_) {
    if (Step()) continue;
    for (LinkEvent& event : inbox_.Drain(std::nullopt)) Handle(std::move(event));
    SendAll();
  }
}

bool DraftLoop::Step() {
  std::vector<LinkEvent> events = inbox_.Take();
  for (LinkEvent& event : events) Handle(std::move(event));
  const bool ran = RunStep();
  SendAll();
  return ran || !events.empty();
}

DrafterLoad DraftLoop::load() const {
  const int64_t free_pages = std::max<int64_t>(budget_.free_pages(), 0);
  return {.sessions = sessions_, .free_pages = static_cast<int>(free_pages)};
}

int DraftLoop::step_tokens() const {
  return std::min(options_.max_step_tokens, model_->max_batch_tokens());
}

void DraftLoop::Handle(LinkEvent event) {
  if (auto* welcome = std::get_if<WelcomeEvent>(&event.message)) {
    const ModelConfig& config = model_->config();
    Connection connection;
    connection.link = std::move(welcome->link);
    connection.bounds = {
        .vocab_size = config.vocab_size,
        .allowed = std::min({welcome->vocab_limit, config.vocab_size,
                             Or(options_.tokenizer_vocab, config.vocab_size)}),
        .max_context = Or(options_.max_context, config.max_position_embeddings),
        .max_draft_length = options_.max_draft_length,
        .max_draft_tokens = options_.max_draft_tokens,
        // A depth is fed in one pass.
        .max_sequences = step_tokens(),
        .eos_token_ids = config.eos_token_ids,
        .law_limits = welcome->law_limits,
    };
    connections_.emplace(event.connection, std::move(connection));
    return;
  }
  const auto found = connections_.find(event.connection);
  if (found == connections_.end()) return;  // ended before it was welcomed
  Connection& connection = found->second;
  if (auto* open = std::get_if<OpenEvent>(&event.message)) {
    Handle(connection, *open);
  } else if (auto* verdicts = std::get_if<VerdictsEvent>(&event.message)) {
    for (const SessionVerdict& verdict : verdicts->verdicts) Handle(connection, verdict);
  } else if (auto* close = std::get_if<CloseEvent>(&event.message)) {
    Forget(connection, close->session);
  } else if (std::holds_alternative<DrainEvent>(event.message)) {
    Log(LogLevel::kInfo, "verifier drains",
        {{"connection", event.connection}, {"sessions", connection.sessions.size()}});
  } else {
    while (!connection.sessions.empty()) Forget(connection, connection.sessions.begin()->first);
    connections_.erase(found);
  }
}

void DraftLoop::Handle(Connection& connection, OpenEvent& open) {
  Forget(connection, open.session);
  const Status opened = Open(connection, open);
  if (!opened.ok()) Refuse(connection, open.session, open.plan.round, opened);
}

Status DraftLoop::Open(Connection& connection, const OpenEvent& open) {
  if (sessions_ >= options_.max_sessions) {
    return ResourceExhausted(std::to_string(sessions_) + " sessions are held, the limit");
  }
  OUTRIDER_ASSIGN(DraftSession session, DraftSession::Create(open, &connection.bounds));
  const auto [at, added] =
      connection.sessions.try_emplace(open.session, model_, &budget_, std::move(session));
  ++sessions_;
  return Begin(at->second);
}

void DraftLoop::Handle(Connection& connection, const SessionVerdict& verdict) {
  const auto found = connection.sessions.find(verdict.session);
  const Status applied = found == connection.sessions.end()
                             ? FailedPrecondition("the session is not held")
                             : Apply(found->second, verdict);
  if (!applied.ok()) Refuse(connection, verdict.session, verdict.plan.round, applied);
}

Status DraftLoop::Apply(Held& held, const SessionVerdict& verdict) {
  OUTRIDER_ASSIGN(const int node, held.session.Apply(verdict));
  held.kv.Keep(node, held.session.kv_length());
  return Begin(held);
}

Status DraftLoop::Begin(Held& held) {
  held.plan_order = plans_++;
  held.planned = clock_->Now();
  return held.kv.Secure(held.session.length(), held.session.shape());
}

void DraftLoop::Refuse(Connection& connection, uint64_t session, uint32_t round,
                       const Status& why) {
  Log(LogLevel::kWarning, "session refused",
      {{"session", session}, {"round", round}, {"reason", why.ToString()}});
  Forget(connection, session);
  connection.outbox.push_back({.session = session, .round = round, .chunk = {}});
}

void DraftLoop::Forget(Connection& connection, uint64_t session) {
  const auto found = connection.sessions.find(session);
  if (found == connection.sessions.end()) return;
  connection.sessions.erase(found);
  --sessions_;
}

std::vector<DraftLoop::Share> DraftLoop::PlanStep() {
  std::vector<Share> waiting;
  for (auto& [id, connection] : connections_) {
    for (auto& [session, held] : connection.sessions) {
      if (held.session.drafting()) waiting.push_back({&connection, session, &held});
    }
  }
  // The oldest plan goes first whatever it needs, so that none starves. Then drafts before prompts:
  // a verdict waits for them, and they are short.
  const auto older = [](const Share& a, const Share& b) {
    return a.held->plan_order < b.held->plan_order;
  };
  const auto oldest = std::min_element(waiting.begin(), waiting.end(), older);
  if (oldest != waiting.end()) {
    std::iter_swap(waiting.begin(), oldest);
    std::sort(waiting.begin() + 1, waiting.end(), [](const Share& a, const Share& b) {
      const auto key = [](const Share& share) {
        return std::make_tuple(share.held->session.Missing().size() > kCatchUpTokens,
                               share.held->plan_order);
      };
      return key(a) < key(b);
    });
  }

  int budget = step_tokens();
  std::vector<Share> shares;
  for (Share& share : waiting) {
    if (budget == 0) break;
    const int missing = static_cast<int>(share.held->session.Missing().size());
    if (missing > 0) {
      share.tokens = std::min({missing, options_.max_chunk_tokens, budget});
      share.logit_rows = share.tokens == missing ? 1 : 0;
    } else {
      share.tokens = static_cast<int>(share.held->session.frontier().size());
      share.logit_rows = share.tokens;
      if (share.tokens > budget) continue;  // whole depths only
    }
    budget -= share.tokens;
    shares.push_back(share);
  }
  return shares;
}

Status DraftLoop::Forward(std::span<const Share> shares, ForwardOutput* output) {
  static constexpr int32_t kOnlyRow = 0;
  std::vector<TokenId> draft_tokens;  // spans point into these two
  std::vector<int32_t> last_rows;
  draft_tokens.reserve(static_cast<size_t>(step_tokens()));
  last_rows.reserve(shares.size());
  std::vector<ForwardSequence> batch;
  for (const Share& share : shares) {
    const DraftSession& session = share.held->session;
    if (!session.Missing().empty()) {
      last_rows.push_back(share.tokens - 1);
      batch.push_back({.sequence = share.held->kv.sequence(DraftTree::kRoot),
                       .tokens = session.Missing().first(static_cast<size_t>(share.tokens)),
                       .parents = {},
                       .logit_rows = {&last_rows.back(), static_cast<size_t>(share.logit_rows)}});
      continue;
    }
    for (const int32_t node : session.frontier()) {
      draft_tokens.push_back(session.draft().token(node));
      batch.push_back({.sequence = share.held->kv.sequence(node),
                       .tokens = {&draft_tokens.back(), 1},
                       .parents = {},
                       .logit_rows = {&kOnlyRow, 1}});
    }
  }
  return model_->Forward(batch, /*want_hidden=*/false, output);
}

void DraftLoop::Draw(const Share& share, std::span<float> rows, StepReport* report) {
  DraftSession& session = share.held->session;
  const int nodes = session.draft().size();
  session.DrawDepth(rows);
  report->drafted_tokens += session.draft().size() - nodes;
  if (session.drafting()) {
    share.held->kv.Branch(session.draft(), session.frontier());
    if (session.depths_drawn() % options_.chunk_depths != 0) return;
  } else {
    share.held->kv.Settle();
    ++report->drafts;
  }
  share.connection->outbox.push_back({.session = share.session,
                                      .round = session.round(),
                                      .chunk = session.TakeChunk(),
                                      .seconds = Seconds(clock_->Now() - share.held->planned)});
}

bool DraftLoop::RunStep() {
  const std::vector<Share> shares = PlanStep();
  if (shares.empty()) return false;
  const Time begin = clock_->Now();
  ForwardOutput output;
  const Status ran = Forward(shares, &output);
  if (!ran.ok()) {
    Log(LogLevel::kError, "forward pass failed", {{"reason", ran.ToString()}});
    for (const Share& share : shares) {
      Refuse(*share.connection, share.session, share.held->session.round(), ran);
    }
    return true;
  }

  StepReport report;
  report.sessions = static_cast<int>(shares.size());
  const auto row_size = static_cast<size_t>(model_->config().vocab_size);
  float* row = output.logits;
  for (const Share& share : shares) {
    report.rows += share.tokens;
    DraftSession& session = share.held->session;
    if (!session.Missing().empty()) session.Fed(share.tokens);
    if (share.logit_rows == 0) continue;
    const std::span<float> rows(row, static_cast<size_t>(share.logit_rows) * row_size);
    Draw(share, rows, &report);
    row += rows.size();
  }
  report.seconds = Seconds(clock_->Now() - begin);
  if (observer_ != nullptr) observer_->OnStep(report);
  return true;
}

void DraftLoop::SendAll() {
  const DrafterLoad now = load();
  if (observer_ != nullptr && observed_ != now) observer_->OnLoad(now);
  observed_ = now;
  for (auto& [id, connection] : connections_) {
    if (!connection.outbox.empty()) {
      connection.link->SendDrafts(std::exchange(connection.outbox, {}));
    }
    // Pages alone change with every step; verifiers need to hear of it when sessions come and go.
    if (!connection.told.has_value() || connection.told->sessions != now.sessions) {
      connection.link->SendLoad(now);
      connection.told = now;
    }
  }
}

}  // namespace outrider
