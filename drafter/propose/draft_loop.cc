#include "drafter/propose/draft_loop.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <thread>
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
      budget_(model) {
  if (options.head != nullptr) head_.emplace(options.head);
}

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
  return {.sessions = sessions_,
          .free_pages = static_cast<int>(free_pages),
          .session_limit = options_.max_sessions};
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
        .head = head_.has_value() ? &*head_ : nullptr,
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
  } else if (const auto* wanted = std::get_if<WantedEvent>(&event.message)) {
    connection.wanted = wanted->wanted;
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
  const auto held_by = [](const Connection& c) { return int64_t{c.held()}; };
  if (sessions_ >= options_.max_sessions &&
      (connection.held() >= part() || !GiveWay(connection, part(), held_by))) {
    return ResourceExhausted(std::to_string(sessions_) + " sessions are held, the limit");
  }
  OUTRIDER_ASSIGN(DraftSession session, DraftSession::Create(open, &connection.bounds));
  Held& held = connection.sessions[open.session];
  if (options_.recorder != nullptr && session.for_training() &&
      options_.recorder->Takes(
          {.sampling = open.sampling, .law_limits = connection.bounds.law_limits})) {
    held.prompt = PromptId(std::span(open.tokens).first(static_cast<size_t>(open.prompt_tokens)));
  }
  held.mirror =
      std::make_unique<Mirror>(std::move(session), model_, &budget_, model_->NewSequence());
  held.opened = opened_++;
  ++sessions_;
  held.trace = DraftTrace::Open(options_.tracer, open, clock_->Now());
  return Begin(connection, held);
}

void DraftLoop::Handle(Connection& connection, const SessionVerdict& verdict) {
  const auto found = connection.sessions.find(verdict.session);
  const Status applied = found == connection.sessions.end()
                             ? FailedPrecondition("the session is not held")
                             : Apply(connection, found->second, verdict);
  if (!applied.ok()) Refuse(connection, verdict.session, verdict.plan.round, applied);
}

void DraftLoop::Learn(Held& held, const SessionVerdict& verdict) {
  const DraftSession& session = held.mirror->session;
  if (!head_.has_value() || verdict.round != session.round()) return;
  const Time now = clock_->Now();
  const bool node_known = verdict.node >= 0 && verdict.node <= session.draft().size();
  if (held.decided.has_value() && node_known) {
    const int tokens = session.draft().depth(verdict.node) + static_cast<int>(verdict.next.size());
    head_->OnRound(tokens, Seconds(now - *held.decided));
  }
  held.decided = now;
  const auto nodes =
      std::min(verdict.acceptance.size(), static_cast<size_t>(session.draft().size()));
  for (size_t i = 0; i < nodes; ++i) {
    const float predicted = session.predicted(static_cast<int>(i) + 1);
    if (predicted < 0.f) continue;
    head_->Learn(predicted,
                 static_cast<float>(static_cast<uint8_t>(verdict.acceptance[i])) / 255.f);
  }
  if (nodes > 0 && observer_ != nullptr) observer_->OnHead(head_->bias(), head_->threshold());
}

void DraftLoop::Record(const Held& held, const SessionVerdict& verdict) {
  const DraftSession& session = held.mirror->session;
  const Mirror::Fed& fed = held.mirror->fed;
  if (!held.prompt.has_value() || verdict.round != session.round()) return;
  const auto width = static_cast<size_t>(model_->config().hidden_size);
  const size_t labelled =
      std::min(verdict.acceptance.size(), static_cast<size_t>(session.draft().size()));
  std::vector<HeadExample> examples;
  for (size_t i = 0; i < fed.nodes.size(); ++i) {
    const auto at = static_cast<size_t>(fed.nodes[i]) - 1;
    if (at >= labelled) continue;
    const float* state = fed.states.data() + i * width;
    examples.push_back(
        {.prompt = *held.prompt,
         .label = static_cast<float>(static_cast<uint8_t>(verdict.acceptance[at])) / 255.f,
         .hidden = {state, state + width}});
  }
  if (!examples.empty()) options_.recorder->Add(std::move(examples));
}

Status DraftLoop::Apply(Connection& connection, Held& held, const SessionVerdict& verdict) {
  Learn(held, verdict);
  Record(held, verdict);
  const bool begun = held.ahead.begun();
  std::unique_ptr<Mirror> ahead = held.ahead.Take(verdict);
  // Rounds that stood in between say nothing.
  if (verdict.plan.round != verdict.round + 1) held.drafted.reset();
  if (begun && observer_ != nullptr) observer_->OnVerdictAhead(ahead != nullptr);
  if (begun && held.trace != nullptr) held.trace->OnVerdictAhead(ahead != nullptr);
  if (ahead != nullptr) {
    held.mirror = std::move(ahead);
    held.plan_order = plans_++;
    held.planned = clock_->Now();
    Send(connection, verdict.session, held);
    return Status();
  }
  DraftSession& session = held.mirror->session;
  OUTRIDER_ASSIGN(const int node, session.Apply(verdict));
  held.mirror->fed = {};
  held.mirror->kv.Keep(node, session.kv_length());
  return Begin(connection, held);
}

Status DraftLoop::Begin(const Connection& connection, Held& held) {
  held.plan_order = plans_++;
  held.planned = clock_->Now();
  const DraftSession& session = held.mirror->session;
  const auto secure = [&] { return held.mirror->kv.Secure(session.length(), session.shape()); };
  if (secure().ok()) return Status();
  // Guesses give way to plans.
  for (auto& [id, other] : connections_) {
    for (auto& [session_id, guessed] : other.sessions) guessed.ahead = {};
  }
  Status secured = secure();
  while (!secured.ok() && GiveWay(connection, connection.tokens(), &Connection::tokens)) {
    secured = secure();
  }
  return secured;
}

int64_t DraftLoop::Connection::tokens() const {
  int64_t tokens = 0;
  for (const auto& [id, held] : sessions) tokens += held.mirror->session.length();
  return tokens;
}

int DraftLoop::part() const {
  const auto wanted = std::count_if(connections_.begin(), connections_.end(),
                                    [](const auto& entry) { return entry.second.wanted; });
  return std::max(options_.max_sessions / std::max(static_cast<int>(wanted), 1), 1);
}

int DraftLoop::SessionLimit(const Connection& connection) const {
  if (!connection.wanted) return 0;
  return std::max(connection.held() + options_.max_sessions - sessions_, part());
}

template <class Amount>
bool DraftLoop::GiveWay(const Connection& asking, int64_t fair, Amount amount) {
  Connection* most = nullptr;
  for (auto& [id, connection] : connections_) {
    if (&connection == &asking || std::invoke(amount, connection) <= fair) continue;
    if (most == nullptr || std::invoke(amount, connection) > std::invoke(amount, *most)) {
      most = &connection;
    }
  }
  if (most == nullptr) return false;
  const auto newest = std::max_element(
      most->sessions.begin(), most->sessions.end(),
      [](const auto& a, const auto& b) { return a.second.opened < b.second.opened; });
  const DraftSession& session = newest->second.mirror->session;
  if (session.drafting()) {
    Refuse(*most, newest->first, session.round(), ResourceExhausted("another verifier's turn"));
  } else {
    // Its plan was answered, and may be decided already: the next one will be refused.
    Forget(*most, newest->first);
  }
  return true;
}

void DraftLoop::Send(Connection& connection, uint64_t session, Held& held) {
  const Time now = clock_->Now();
  if (!held.mirror->session.drafting()) {
    if (held.drafted.has_value()) gate_.OnRound(Seconds(now - *held.drafted));
    held.drafted = now;
    if (held.trace != nullptr) {
      const DraftSession& drafted = held.mirror->session;
      held.trace->OnDraft(drafted.round(), drafted.depths_drawn(), drafted.draft().size(),
                          Seconds(now - held.planned), now);
    }
    if (observer_ != nullptr) {
      observer_->OnDraftSent(held.mirror->session.depths_drawn(), Seconds(now - held.planned));
    }
  }
  connection.outbox.push_back({.session = session,
                               .round = held.mirror->session.round(),
                               .chunk = held.mirror->session.TakeChunk(),
                               .seconds = Seconds(now - held.planned)});
}

void DraftLoop::Refuse(Connection& connection, uint64_t session, uint32_t round,
                       const Status& why) {
  Log(LogLevel::kWarning, "session refused",
      {{"session", session}, {"round", round}, {"reason", why.ToString()}});
  const auto held = connection.sessions.find(session);
  if (held != connection.sessions.end() && held->second.trace != nullptr) {
    held->second.trace->Fail(why);
  }
  Forget(connection, session);
  connection.outbox.push_back({.session = session, .round = round, .chunk = {}});
}

void DraftLoop::Forget(Connection& connection, uint64_t session) {
  const auto found = connection.sessions.find(session);
  if (found == connection.sessions.end()) return;
  connection.sessions.erase(found);
  --sessions_;
}

void DraftLoop::TakeTurns(std::vector<Share>& shares) {
  std::sort(shares.begin(), shares.end(),
            [](const Share& a, const Share& b) { return a.held->plan_order < b.held->plan_order; });
  std::map<const Connection*, int> turns;
  std::vector<std::pair<int, Share>> by_turn;
  by_turn.reserve(shares.size());
  for (const Share& share : shares) by_turn.emplace_back(turns[share.connection]++, share);
  std::stable_sort(by_turn.begin(), by_turn.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  shares.clear();
  for (const auto& [turn, share] : by_turn) shares.push_back(share);
}

std::vector<DraftLoop::Share> DraftLoop::PlanStep() {
  std::vector<Share> waiting;
  for (auto& [id, connection] : connections_) {
    for (auto& [session, held] : connection.sessions) {
      if (held.mirror->session.drafting()) waiting.push_back({&connection, session, &held});
    }
  }
  TakeTurns(waiting);
  // The oldest plan goes first whatever it needs, so that none starves. Then drafts before prompts:
  // a verdict waits for them, and they are short.
  const auto oldest = std::min_element(
      waiting.begin(), waiting.end(),
      [](const Share& a, const Share& b) { return a.held->plan_order < b.held->plan_order; });
  if (oldest != waiting.end()) {
    std::rotate(waiting.begin(), oldest, oldest + 1);
    std::stable_partition(waiting.begin() + 1, waiting.end(), [](const Share& share) {
      return share.mirror().session.Missing().size() <= kCatchUpTokens;
    });
  }

  int budget = step_tokens();
  std::vector<Share> shares;
  for (Share& share : waiting) {
    if (budget == 0) break;
    const DraftSession& session = share.mirror().session;
    const int missing = static_cast<int>(session.Missing().size());
    if (missing > 0) {
      share.tokens = std::min({missing, options_.max_chunk_tokens, budget});
      share.logit_rows = share.tokens == missing ? 1 : 0;
    } else {
      share.tokens = static_cast<int>(session.frontier().size());
      share.logit_rows = share.tokens;
      if (share.tokens > budget) continue;  // whole depths only
    }
    budget -= share.tokens;
    shares.push_back(share);
  }
  return shares;
}

std::vector<DraftLoop::Share> DraftLoop::PlanAhead() {
  if (options_.ahead_tokens == 0 || !gate_.open()) return {};
  // The session whose draft was sent first hears of it first.
  std::vector<Share> last;  // of each session, the guess that was taken last
  for (auto& [id, connection] : connections_) {
    for (auto& [session, held] : connection.sessions) {
      if (held.mirror->session.drafting() || held.mirror->session.draft().empty()) continue;
      if (!held.ahead.begun()) {
        held.ahead = WorkAhead(held.mirror.get(), model_, &budget_, options_.ahead_tokens);
      }
      last.push_back({&connection, session, &held});
    }
  }
  TakeTurns(last);

  // The likeliest guess of every session, then the second of every session, and so on.
  int budget = std::min(options_.max_ahead_rows, step_tokens());
  std::vector<Share> shares;
  while (budget > 0 && !last.empty()) {
    std::vector<Share> taken;
    for (Share share : last) {
      share.guess = share.held->ahead.Next(share.guess, budget);
      if (share.guess == nullptr) continue;
      share.tokens = share.guess->wants();
      share.logit_rows = share.guess->logit_rows(share.tokens);
      budget -= share.tokens;
      taken.push_back(share);
    }
    shares.insert(shares.end(), taken.begin(), taken.end());
    last = std::move(taken);
  }
  return shares;
}

Status DraftLoop::Forward(std::span<const Share> shares, bool on_device, ForwardOutput* output) {
  static constexpr int32_t kOnlyRow = 0;
  std::vector<TokenId> draft_tokens;  // spans point into these two
  std::vector<int32_t> last_rows;
  draft_tokens.reserve(static_cast<size_t>(step_tokens()));
  last_rows.reserve(shares.size());
  std::vector<ForwardSequence> batch;
  bool want_hidden = false;
  batch_.Clear();
  for (const Share& share : shares) {
    const DraftSession& session = share.mirror().session;
    if (on_device && share.logit_rows > 0) {
      if (share.guess != nullptr) {
        share.held->ahead.AddRows(*share.guess, &batch_);
      } else {
        session.AddRows(&batch_);
      }
    }
    const DraftKv& kv = share.mirror().kv;
    want_hidden = want_hidden || session.by_head() || share.recorded();
    if (!session.Missing().empty()) {
      last_rows.push_back(share.tokens - 1);
      batch.push_back({.sequence = kv.sequence(DraftTree::kRoot),
                       .tokens = session.Missing().first(static_cast<size_t>(share.tokens)),
                       .parents = {},
                       .logit_rows = {&last_rows.back(), static_cast<size_t>(share.logit_rows)},
                       .draft = on_device});
      continue;
    }
    for (const int32_t node : session.frontier()) {
      draft_tokens.push_back(session.draft().token(node));
      batch.push_back({.sequence = kv.sequence(node),
                       .tokens = {&draft_tokens.back(), 1},
                       .parents = {},
                       .logit_rows = {&kOnlyRow, 1},
                       .draft = on_device});
    }
  }
  return model_->Forward(batch, want_hidden, output);
}

bool DraftLoop::Draw(const Share& share, const DraftRows& rows, std::span<const float> accepted,
                     std::span<const float> states, StepReport* report) {
  Mirror& mirror = *share.held->mirror;
  const DraftSession& session = mirror.session;
  const int nodes = session.draft().size(), broken = session.broken_rows();
  mirror.DrawDepth(rows, accepted, states);
  report->drafted_tokens += session.draft().size() - nodes;
  report->broken_rows += session.broken_rows() - broken;
  if (!session.drafting() && !session.has_chunk()) {
    Refuse(*share.connection, share.session, session.round(),
           Internal("the draft model's logits are NaN or infinite"));
    return false;
  }
  if (session.drafting() && session.depths_drawn() % options_.chunk_depths != 0) return true;
  Send(*share.connection, share.session, *share.held);
  return true;
}

int DraftLoop::DepthsDue(const DraftSession& session) const {
  const int depth = session.depths_drawn();
  return std::min(options_.chunk_depths - depth % options_.chunk_depths,
                  session.shape().length - depth);
}

int DraftLoop::ChainDepths(std::span<const Share> shares) const {
  if (shares.empty() || shares.size() != static_cast<size_t>(sessions_)) return 0;
  int depths = options_.chunk_depths;
  for (const Share& share : shares) {
    const DraftSession& session = share.mirror().session;
    if (share.logit_rows != 1 || share.recorded() || !session.draws_chain()) return 0;
    depths = std::min(depths, DepthsDue(session));
  }
  return depths;
}

void DraftLoop::RunChains(std::span<const Share> shares, int depths) {
  const Time begin = clock_->Now();
  const int64_t bytes_before = model_->bytes_to_host();
  std::vector<DraftChain> chains;
  std::vector<TokenId> draft_tokens;
  draft_tokens.reserve(shares.size());  // spans point into it
  bool reads_prompt = false;
  batch_.Clear();
  for (const Share& share : shares) {
    const DraftSession& session = share.mirror().session;
    std::span<const TokenId> tokens = session.Missing();
    reads_prompt = reads_prompt || tokens.size() > kCatchUpTokens;
    if (tokens.empty()) {
      draft_tokens.push_back(session.draft().token(session.frontier()[0]));
      tokens = {&draft_tokens.back(), 1};
    }
    chains.push_back({share.mirror().kv.sequence(session.frontier()[0]), tokens});
    session.AddChain(depths, &batch_);
  }
  std::span<const PickedRow> picked;
  if (const Status ran = model_->DraftChains(chains, depths, batch_, &picked); !ran.ok()) {
    RefuseAll(shares, ran);
    return;
  }

  // The host draws what the device has drawn, from what it was drawn from.
  std::vector<StepReport> reports(static_cast<size_t>(depths));
  std::vector<bool> over(shares.size(), false), is_held(shares.size(), true);
  for (StepReport& report : reports) {
    for (size_t i = 0; i < shares.size(); ++i) {
      const Share& share = shares[i];
      const bool first = &report == &reports.front();
      const std::span<const PickedRow> row = picked.first(1);
      picked = picked.subspan(1);
      ++report.sessions;
      ++report.device_rows;
      report.rows += first ? share.tokens : 1;
      if (over[i]) continue;
      DraftSession& session = share.held->mirror->session;
      if (first && !session.Missing().empty()) session.Fed(share.tokens);
      is_held[i] = Draw(share, DraftRows(row), {}, {}, &report);
      over[i] = !is_held[i] || !session.drafting() || !IsSame(session, row[0].drawn);
    }
  }
  // What was fed behind the end of a draft.
  for (size_t i = 0; i < shares.size(); ++i) {
    if (!is_held[i]) continue;
    Mirror& mirror = *shares[i].held->mirror;
    mirror.kv.Drop(mirror.session.length() + mirror.session.depths_drawn() - 1);
  }

  const double seconds = Seconds(clock_->Now() - begin) / depths;
  reports.front().device_bytes = model_->bytes_to_host() - bytes_before;
  for (StepReport& report : reports) {
    report.seconds = seconds;
    report.graphs = model_->graph_counts();
    if (head_.has_value() && !reads_prompt) head_->OnPass(seconds);
    if (observer_ != nullptr) observer_->OnStep(report);
  }
}

bool DraftLoop::IsSame(const DraftSession& session, TokenId drawn) {
  const TokenId token = session.draft().token(session.draft().size());
  if (token == drawn) return true;
  // What is behind it is drafted again, so nothing is lost but time.
  if (!std::exchange(told_of_other_token_, true)) {
    Log(LogLevel::kError, "the device drew another token than the host, told once",
        {{"round", session.round()},
         {"depth", session.depths_drawn()},
         {"device", drawn},
         {"host", token}});
  }
  return false;
}

void DraftLoop::RefuseAll(std::span<const Share> shares, const Status& why) {
  Log(LogLevel::kError, "forward pass failed", {{"reason", why.ToString()}});
  for (const Share& share : shares) {
    Refuse(*share.connection, share.session, share.held->mirror->session.round(), why);
  }
}

bool DraftLoop::RunStep() {
  std::vector<Share> shares = PlanStep();
  if (model_->drafts()) {
    if (const int depths = ChainDepths(shares); depths > 1) {
      RunChains(shares, depths);
      return true;
    }
  }
  const bool ahead = shares.empty();
  if (ahead) shares = PlanAhead();
  if (shares.empty()) return false;
  const Time begin = clock_->Now();
  const int64_t bytes_before = model_->bytes_to_host();
  const bool on_device = model_->drafts();
  ForwardOutput output;
  if (const Status ran = Forward(shares, on_device, &output); !ran.ok()) {
    RefuseAll(shares, ran);
    return true;
  }

  StepReport report{.sessions = static_cast<int>(shares.size()), .ahead = ahead};
  const auto row_size = static_cast<size_t>(model_->config().vocab_size);
  const auto hidden_size = static_cast<size_t>(model_->config().hidden_size);
  float* row = output.logits;
  std::span<const PickedRow> picked;
  if (batch_.rows() > 0) picked = model_->Draft(batch_);
  report.device_rows = batch_.rows();
  report.device_bytes = model_->bytes_to_host() - bytes_before;
  const float* hidden = output.hidden;
  bool reads_prompt = false;
  for (const Share& share : shares) {
    report.rows += share.tokens;
    reads_prompt = reads_prompt || share.mirror().session.Missing().size() > kCatchUpTokens;
    const auto row_count = static_cast<size_t>(share.logit_rows);
    DraftRows rows;
    if (on_device) {
      rows = DraftRows(picked.first(row_count));
      picked = picked.subspan(row_count);
    } else if (row_count > 0) {
      rows = DraftRows(std::span(row, row_count * row_size));
      row += row_count * row_size;
    }
    std::vector<float> accepted;
    std::span<const float> states;
    if (hidden != nullptr) {
      states = {hidden, row_count * hidden_size};
      hidden += states.size();
      if (share.mirror().session.by_head()) accepted = head_->Predict(states);
      if (!share.recorded()) states = {};
    }
    if (ahead) {
      report.drafted_tokens +=
          share.held->ahead.Fed(share.guess, share.tokens, rows, accepted, states);
      continue;
    }
    DraftSession& session = share.held->mirror->session;
    if (!session.Missing().empty()) session.Fed(share.tokens);
    if (!rows.empty()) Draw(share, rows, accepted, states, &report);
  }
  report.seconds = Seconds(clock_->Now() - begin);
  report.graphs = model_->graph_counts();
  if (head_.has_value() && !ahead && !reads_prompt) head_->OnPass(report.seconds);
  // The threads that receive may share this core.
  if (ahead) std::this_thread::yield();
  if (observer_ != nullptr) observer_->OnStep(report);
  return true;
}

void DraftLoop::SendAll() {
  DrafterLoad now = load();
  if (observer_ != nullptr && observed_ != now) observer_->OnLoad(now);
  observed_ = now;
  for (auto& [id, connection] : connections_) {
    if (!connection.outbox.empty()) {
      connection.link->SendDrafts(std::exchange(connection.outbox, {}));
    }
    // Pages alone change with every step; verifiers need to hear of it when sessions come and go.
    now.session_limit = SessionLimit(connection);
    if (!connection.told.has_value() || connection.told->sessions != now.sessions ||
        connection.told->session_limit != now.session_limit) {
      connection.link->SendLoad(now);
      connection.told = now;
    }
    if (!connection.wanted && connection.sessions.empty()) connection.link->Close();
  }
}

}  // namespace outrider
