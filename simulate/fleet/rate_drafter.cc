#include "simulate/fleet/rate_drafter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "drafter/propose/draft_sessions.h"

namespace outrider {
namespace {

// A drafting loop tells all verifiers its load after every step in which it has changed. Here only
// one that opens a session is told at once, the others less often: that saves most of a large
// fleet's messages.
constexpr Duration kLoadPeriod = std::chrono::seconds(5);

}  // namespace

RateDrafter::RateDrafter(const FleetScenario& scenario, int zone, const Tokenizer& tokenizer,
                         EventQueue* queue)
    : FleetDrafter(scenario, zone, tokenizer, queue, std::make_shared<SimulatedDevice>()),
      scenario_(scenario) {}

bool RateDrafter::Push(LinkEvent event) {
  if (auto* const welcome = std::get_if<WelcomeEvent>(&event.message)) {
    connections_[event.connection].link = std::move(welcome->link);
    load_changed_ = true;
    next_load_ = clock().Now();
    return true;
  }
  const auto found = connections_.find(event.connection);
  if (found == connections_.end()) return true;
  Connection& connection = found->second;
  if (const auto* const opening = std::get_if<SessionOpening>(&event.message)) {
    Open(event.connection, &connection, *opening);
  } else if (const auto* const verdicts =
                 std::get_if<std::vector<SessionVerdict>>(&event.message)) {
    for (const SessionVerdict& verdict : *verdicts) {
      if (connection.sessions.contains(verdict.session)) {
        Begin(event.connection, verdict.session, verdict.plan);
      }
    }
  } else if (const auto* const close = std::get_if<CloseEvent>(&event.message)) {
    sessions_ -= static_cast<int>(connection.sessions.erase(close->session));
    load_changed_ = true;
    // One that is left closes after its last session.
    if (!connection.wanted) next_load_ = clock().Now();
  } else if (const auto* const wanted = std::get_if<WantedEvent>(&event.message)) {
    connection.wanted = wanted->wanted;
    load_changed_ = true;
    next_load_ = clock().Now();
  } else if (std::holds_alternative<DisconnectedEvent>(event.message)) {
    sessions_ -= static_cast<int>(connection.sessions.size());
    connections_.erase(found);
    load_changed_ = true;
  }
  return true;
}

void RateDrafter::Open(uint64_t id, Connection* connection, const SessionOpening& opening) {
  if (sessions_ >= scenario_.drafter.sessions) {
    return connection->link->SendDrafts(
        {{.session = opening.session, .round = opening.plan.round, .chunk = {}}});
  }
  connection->sessions.insert(opening.session);
  ++sessions_;
  load_changed_ = true;
  TellLoad(connection);
  Begin(id, opening.session, opening.plan);
}

void RateDrafter::Begin(uint64_t connection, uint64_t session, const DraftPlan& plan) {
  if (plan.shape.length == 0) return;
  // A pass for each depth, with a row for each session.
  const double seconds =
      plan.shape.length * scenario_.drafter.cost.Seconds(std::max(sessions_, 1)) * slowness();
  drafts_.push({.at = clock().Now() + FromSeconds(seconds),
                .connection = connection,
                .session = session,
                .round = plan.round,
                .length = plan.shape.length,
                .seconds = seconds});
}

void RateDrafter::Send(const Draft& draft) {
  const auto found = connections_.find(draft.connection);
  if (found == connections_.end() || !found->second.sessions.contains(draft.session)) return;
  DraftPart part{.session = draft.session, .round = draft.round, .seconds = draft.seconds};
  part.chunk.tokens.assign(static_cast<size_t>(draft.length), 0);
  found->second.link->SendDrafts({std::move(part)});
}

bool RateDrafter::Step() {
  const Time now = clock().Now();
  while (!drafts_.empty() && drafts_.top().at <= now) {
    Send(drafts_.top());
    drafts_.pop();
  }
  if (load_changed_ && next_load_ <= now) TellLoads(now);
  return false;
}

void RateDrafter::TellLoads(Time now) {
  load_changed_ = false;
  next_load_ = now + kLoadPeriod;
  for (auto& [id, connection] : connections_) {
    TellLoad(&connection);
    if (!connection.wanted && connection.sessions.empty()) connection.link->Close();
  }
}

void RateDrafter::TellLoad(Connection* connection) const {
  const auto wanted = std::count_if(connections_.begin(), connections_.end(),
                                    [](const auto& entry) { return entry.second.wanted; });
  std::vector<int> others;
  for (const auto& [id, other] : connections_) {
    if (&other != connection) others.push_back(static_cast<int>(other.sessions.size()));
  }
  const int most = scenario_.drafter.sessions;
  const int share = SessionShare(most, static_cast<int>(wanted));
  const DrafterLoad load{
      .sessions = sessions_,
      .session_limit = connection->wanted ? SessionLimitOf(others, most, share) : 0};
  if (connection->told == load) return;
  connection->link->SendLoad(load);
  connection->told = load;
}

std::optional<Time> RateDrafter::NextDeadline() const {
  std::optional<Time> next;
  if (!drafts_.empty()) next = drafts_.top().at;
  if (load_changed_ && (!next.has_value() || next_load_ < *next)) next = next_load_;
  return next;
}

}  // namespace outrider
