#include "verifier/pool/drafter_pool.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"

namespace outrider {
namespace {

// Late drafts in a row after which a session is moved from a drafter that is not suspended.
constexpr int kLateToMove = 2;
// To read before a draft: no more than some verdicts bring.
constexpr int kManyTokens = 16;
// The share of the time that trials of suspended drafters may be waited for, of all together: or
// many that never draft, or one that comes back again and again, would make every request wait.
constexpr double kTrialShare = 1. / 40;

Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

DrafterPool::DrafterPool(TargetIdentity target, const DraftLawLimits& law_limits,
                         VerifierMetrics* metrics, const Clock* clock)
    : target_(std::move(target)), law_limits_(law_limits), metrics_(metrics), clock_(clock) {}

Status DrafterPool::Check(const DrafterHello& hello) const {
  if (hello.protocol_version != kDraftingProtocolVersion) {
    return FailedPrecondition("protocol version: the verifier speaks " +
                              std::to_string(kDraftingProtocolVersion) + ", the drafter " +
                              std::to_string(hello.protocol_version));
  }
  if (const std::string mismatch = DescribeMismatch(target_.tokenizer, hello.tokenizer);
      !mismatch.empty()) {
    return FailedPrecondition("tokenizer of " + hello.model + " differs from that of " +
                              target_.model + ": " + mismatch);
  }
  if (hello.vocab_size < 1 || hello.max_sessions < 1 || hello.max_draft_length < 1 ||
      hello.max_draft_tokens < 1 || hello.max_context < 2) {
    return FailedPrecondition(
        "hello: vocab_size, max_sessions, max_draft_length, max_draft_tokens and max_context must "
        "be positive");
  }
  return Status();
}

Status DrafterPool::Join(uint64_t id, const DrafterHello& hello,
                         std::shared_ptr<DrafterLink> link) {
  if (draining_) return Unavailable("the verifier is draining");
  if (Status status = Check(hello); !status.ok()) {
    if (metrics_ != nullptr) metrics_->drafters_refused_total.Increment();
    Log(LogLevel::kWarning, "drafter refused",
        {{"drafter", hello.name}, {"reason", status.message()}});
    return status;
  }
  Drafter& drafter = drafters_[id];
  drafter.hello = hello;
  drafter.link = std::move(link);
  drafter.joined = clock_->Now();
  drafter.heard = drafter.joined;
  drafter.link->SendWelcome({.model = target_.model,
                             .vocab_limit = std::min({target_.tokenizer.vocab_size,
                                                      target_.vocab_size, hello.vocab_size}),
                             .law_limits = law_limits_});
  if (metrics_ != nullptr) {
    metrics_->drafters_connected.Set(static_cast<double>(drafters_.size()));
  }
  Log(LogLevel::kInfo, "drafter joined", {{"drafter", hello.name}, {"model", hello.model}});
  return Status();
}

void DrafterPool::Leave(uint64_t id) {
  const auto it = drafters_.find(id);
  if (it == drafters_.end()) return;
  Log(LogLevel::kWarning, "drafter left",
      {{"drafter", it->second.hello.name}, {"sessions", it->second.sessions}});
  Drop(id);
  leaving_.insert(id);
}

void DrafterPool::OnStreamEnd(uint64_t id, StreamEnd why) {
  Leave(id);
  if (leaving_.erase(id) == 0 || metrics_ == nullptr) return;
  switch (why) {
    case StreamEnd::kClosed: return metrics_->drafters_left_closed.Increment();
    case StreamEnd::kGone: return metrics_->drafters_left_gone.Increment();
    case StreamEnd::kProtocolError: return metrics_->drafters_left_protocol_error.Increment();
    case StreamEnd::kOverload: return metrics_->drafters_left_overload.Increment();
  }
}

void DrafterPool::Drop(uint64_t id) {
  drafters_.erase(id);
  std::vector<uint64_t> lost;
  for (const auto& [session, assignment] : assignments_) {
    if (assignment.drafter == id) lost.push_back(session);
  }
  for (const uint64_t session : lost) {
    assignments_.erase(session);
    consumer_->OnDrafterLost(session);
  }
  CountSilent();
  if (metrics_ != nullptr) {
    metrics_->drafters_connected.Set(static_cast<double>(drafters_.size()));
  }
}

Status DrafterPool::Take(Assignment& assignment, DraftPart& part) const {
  const auto reject = [&part](const std::string& what) {
    return InvalidArgument("session " + std::to_string(part.session) + ", round " +
                           std::to_string(part.round) + ": " + what);
  };
  if (assignment.complete) return reject("a part behind the last one");
  ++assignment.parts;
  assignment.complete = !part.chunk.more;
  if (const Status status = assignment.draft.Append(std::move(part.chunk)); !status.ok()) {
    return reject(status.message());
  }
  // A request that matches tokens has no laws and a sampled one needs them: a sampled token called
  // a point mass would bend the output law.
  const Status valid =
      Validate(assignment.draft, assignment.plan.shape, assignment.kind == DraftKind::kSampled,
               std::min(target_.tokenizer.vocab_size, target_.vocab_size));
  return valid.ok() ? valid : reject(valid.message());
}

uint64_t DrafterPool::PartsToCome(const Assignment& assignment) {
  if (assignment.complete) return 0;
  return static_cast<uint64_t>(std::max(assignment.plan.shape.length - assignment.parts, 0));
}

void DrafterPool::Expel(uint64_t id, const Status& reason) {
  const Drafter& drafter = drafters_.at(id);
  Log(LogLevel::kError, "drafter broke the protocol; its stream is closed",
      {{"drafter", drafter.hello.name}, {"reason", reason.message()}});
  drafter.link->Close(reason);
  Drop(id);
  if (metrics_ != nullptr) metrics_->drafters_left_protocol_error.Increment();
}

void DrafterPool::OnDrafts(uint64_t id, std::vector<DraftPart> parts, size_t bytes) {
  if (metrics_ != nullptr) {
    metrics_->draft_bytes_received_total.Increment(static_cast<double>(bytes));
  }
  for (DraftPart& part : parts) {
    const auto it = drafters_.find(id);
    if (it == drafters_.end()) return;
    Drafter& drafter = it->second;
    drafter.heard = clock_->Now();
    const bool suspended = drafter.punctuality.suspended();
    const auto found = assignments_.find(part.session);
    const bool held = found != assignments_.end() && found->second.drafter == id;
    if (!held || found->second.plan.round != part.round) {
      if (!TakeCrossing(drafter, held ? &found->second : nullptr, part)) {
        Expel(id, InvalidArgument("session " + std::to_string(part.session) + ", round " +
                                  std::to_string(part.round) + ": a draft nobody asked for"));
        return;
      }
      ReportSuspension(id, drafter, suspended);
      continue;
    }
    Assignment& assignment = found->second;
    if (part.chunk.tokens.empty()) {  // refused: it holds nothing
      if (!assignment.late) {
        drafter.punctuality.RecordRefusal(clock_->Now(), Seconds(clock_->Now() - assignment.sent));
        ReportSuspension(id, drafter, suspended);
      }
      --drafter.sessions;
      assignments_.erase(found);
      consumer_->OnRefused(part.session);
      continue;
    }
    const auto tokens = part.chunk.tokens.size();
    if (const Status status = Take(assignment, part); !status.ok()) {
      Expel(id, status);
      return;
    }
    drafter.drafted_tokens += tokens;
    if (assignment.complete) RecordDraft(drafter, assignment, part.seconds);
    consumer_->OnDraft(part.session, part.round, assignment.draft, assignment.complete);
    ReportSuspension(id, drafter, suspended);
  }
}

bool DrafterPool::TakeCrossing(Drafter& drafter, Assignment* assignment, const DraftPart& part) {
  const bool future = assignment != nullptr && part.round > assignment->plan.round;
  if (future || drafter.crossing == 0) return false;
  --drafter.crossing;
  if (metrics_ != nullptr) {
    metrics_->draft_tokens_late_total.Increment(static_cast<double>(part.chunk.tokens.size()));
  }
  const bool whole = !part.chunk.more && !part.chunk.tokens.empty();
  if (assignment == nullptr || !whole || part.round != assignment->overdue.round) return true;
  const double round_trip = Seconds(clock_->Now() - assignment->overdue.sent);
  drafter.punctuality.RecordDraft(clock_->Now(), round_trip, assignment->worth, /*late=*/true);
  drafter.drafting.Add(std::clamp(part.seconds, 0.0, round_trip));
  assignment->overdue = {};
  assignment->fresh = false;
  return true;
}

void DrafterPool::RecordDraft(Drafter& drafter, Assignment& assignment, double seconds_drafting) {
  const double round_trip = Seconds(clock_->Now() - assignment.sent);
  const bool suspended = drafter.punctuality.suspended();
  if (suspended || !assignment.reads) {
    drafter.punctuality.RecordDraft(clock_->Now(), round_trip, assignment.worth, assignment.late);
  }
  if (suspended && !drafter.punctuality.suspended()) {
    drafter.drafting = drafter.depth = {};
  } else if (suspended && assignment.fresh && assignment.tokens > kManyTokens) {
    // It had a prompt to read; with the next draft it shows its time.
    drafter.punctuality.RepeatTrial(clock_->Now());
  }
  if (!assignment.reads) {
    const double drafting = std::clamp(seconds_drafting, 0.0, round_trip);
    drafter.drafting.Add(drafting);
    drafter.depth.Add(drafting / assignment.draft.max_depth());
    assignment.last_seconds = drafting;
    if (metrics_ != nullptr) {
      metrics_->draft_round_trip_seconds.Observe(round_trip);
      metrics_->draft_drafting_seconds.Observe(drafting);
    }
  }
  assignment.fresh = false;
  assignment.reads = false;
  if (!assignment.late) assignment.late_in_a_row = 0;
}

void DrafterPool::OnLoad(uint64_t id, const DrafterLoad& load) {
  if (const auto it = drafters_.find(id); it != drafters_.end()) {
    it->second.load = load;
    it->second.heard = clock_->Now();
  }
}

int DrafterPool::Sessions(const Drafter& drafter) {
  return std::max(drafter.sessions, drafter.load.sessions);
}

double DrafterPool::ExpectedSeconds(const Drafter& drafter) {
  const Estimate& round_trip = drafter.punctuality.round_trip();
  // A new drafter shows with one session what it can do, before it gets more than others.
  if (!round_trip.measured) return drafter.sessions == 0 ? 0 : Punctuality::kMaxTimeout;
  const double network = std::max(round_trip.mean - drafter.drafting.mean, 0.0);
  const int sessions = std::max(Sessions(drafter), 1);
  return network + drafter.drafting.mean * (sessions + 1) / sessions;
}

void DrafterPool::Drain() {
  draining_ = true;
  for (const auto& [id, drafter] : drafters_) drafter.link->SendDrain();
}

DraftPlan DrafterPool::Bounded(const DraftPlan& plan, const DrafterHello& hello) {
  DraftPlan bounded = plan;
  bounded.shape.length = std::min(plan.shape.length, hello.max_draft_length);
  while (bounded.shape.length > 1 && bounded.shape.total_draws() > hello.max_draft_tokens) {
    --bounded.shape.length;
  }
  return bounded;
}

bool DrafterPool::BeginTrialIfDue(Drafter& drafter) {
  const Time now = clock_->Now();
  if (!drafter.punctuality.suspended() || !drafter.punctuality.IsTrialDue(now)) return false;
  drafter.punctuality.BeginTrial(now);
  CountSilent();
  return true;
}

void DrafterPool::CountSilent() {
  if (metrics_ == nullptr) return;
  metrics_->drafters_silent.Set(
      static_cast<double>(std::count_if(drafters_.begin(), drafters_.end(), [](const auto& entry) {
        return entry.second.punctuality.silent();
      })));
}

void DrafterPool::ReportSuspension(uint64_t id, const Drafter& drafter, bool before) {
  const bool suspended = drafter.punctuality.suspended();
  if (suspended == before) return;
  CountSilent();
  if (suspended) {
    Log(LogLevel::kWarning, "drafter is late; its drafts are not waited for",
        {{"drafter", drafter.hello.name}});
    return;
  }
  Log(LogLevel::kInfo, "drafter is in time: its drafts are waited for",
      {{"drafter", drafter.hello.name}});
  for (const auto& [session, assignment] : assignments_) {
    if (assignment.drafter == id) consumer_->OnDrafterBack(session);
  }
}

bool DrafterPool::Takes(const Drafter& drafter, int tokens) const {
  if (drafter.punctuality.suspended() &&
      (drafter.sessions > 0 || !drafter.punctuality.IsTrialDue(clock_->Now()))) {
    return false;
  }
  // Where it names a limit, it makes room by sessions of others.
  const bool room = drafter.load.session_limit.has_value()
                        ? drafter.sessions < *drafter.load.session_limit
                        : drafter.load.sessions < drafter.hello.max_sessions;
  return room && drafter.sessions < drafter.hello.max_sessions &&
         tokens <= drafter.hello.max_context;
}

DrafterPool::Drafter* DrafterPool::Best(int tokens, bool try_silent, uint64_t* id) {
  // A suspended one that is due to be tried, else by expected time; of two that are alike (or new)
  // the one with fewer sessions.
  const auto key = [](const Drafter& d) {
    return std::tuple(!d.punctuality.suspended(), ExpectedSeconds(d), Sessions(d));
  };
  Drafter* best = nullptr;
  for (auto& [candidate, drafter] : drafters_) {
    if (drafter.punctuality.silent() && !try_silent) continue;
    if (!Takes(drafter, tokens) || (best != nullptr && key(*best) <= key(drafter))) continue;
    best = &drafter;
    *id = candidate;
  }
  return best;
}

bool DrafterPool::HasRoom(int tokens) {
  uint64_t id = 0;
  return !draining_ && Best(tokens, /*try_silent=*/true, &id) != nullptr;
}

void DrafterPool::Open(SessionOpening opening) {
  const auto tokens = static_cast<int>(opening.tokens.size());
  uint64_t id = 0;
  Drafter* const best = Best(tokens + opening.plan.shape.length, /*try_silent=*/true, &id);
  OUTRIDER_CHECK(best != nullptr);
  const Time now = clock_->Now();
  const bool trial = BeginTrialIfDue(*best);
  const bool awaited_trial =
      trial && best->punctuality.MayResume(now) && now >= next_awaited_trial_;
  ++best->sessions;
  opening.plan = Bounded(opening.plan, best->hello);
  assignments_[opening.session] = {.drafter = id,
                                   .tokens = tokens,
                                   .plan = opening.plan,
                                   .sent = now,
                                   .opened = now,
                                   .trial = trial,
                                   .awaited_trial = awaited_trial,
                                   .kind = opening.kind};
  best->link->SendOpen(std::move(opening));
}

void DrafterPool::MarkLate(uint64_t session) {
  const auto it = assignments_.find(session);
  if (it == assignments_.end()) return;
  Assignment& assignment = it->second;
  Drafter& drafter = drafters_.at(assignment.drafter);
  const bool suspended = drafter.punctuality.suspended();
  assignment.late = true;
  assignment.awaited_trial = false;
  ++assignment.late_in_a_row;
  // A long prompt takes its time; another drafter would have to read it too.
  const bool may_read = assignment.fresh && assignment.parts == 0;
  if (may_read && !suspended && assignment.late_in_a_row < kLateToMove) return;
  const double taken = Seconds(clock_->Now() - assignment.sent);
  const bool reads = assignment.reads && assignment.parts == 0;
  drafter.punctuality.MarkLate(clock_->Now(), reads ? 0 : taken, drafter.heard <= assignment.sent);
  ReportSuspension(assignment.drafter, drafter, suspended);
}

bool DrafterPool::ReassignSession(uint64_t session) {
  const auto it = assignments_.find(session);
  if (it == assignments_.end() || draining_) return false;
  const Assignment& assignment = it->second;
  Drafter& drafter = drafters_.at(assignment.drafter);
  const bool suspended = drafter.punctuality.suspended();
  if (!suspended && assignment.late_in_a_row < kLateToMove) return false;
  // A trial has as long as any draft that would be waited for.
  const double held = Seconds(clock_->Now() - assignment.opened);
  if (suspended && assignment.trial && held < Punctuality::kMaxTimeout) return false;
  uint64_t id = 0;
  const Drafter* const best =
      Best(assignment.tokens + assignment.plan.shape.length, /*try_silent=*/false, &id);
  if (best == nullptr || best == &drafter) return false;
  if (!suspended && ExpectedSeconds(*best) >= ExpectedSeconds(drafter)) return false;
  // Not back to where it comes from.
  BeginTrialIfDue(drafter);
  if (metrics_ != nullptr) metrics_->sessions_moved_total.Increment();
  Close(session);
  return true;
}

void DrafterPool::Decide(RoundDecision decision) {
  const auto it = assignments_.find(decision.session);
  if (it == assignments_.end()) return;
  Assignment& assignment = it->second;
  Drafter& drafter = drafters_.at(assignment.drafter);
  OUTRIDER_CHECK(decision.node <= assignment.draft.size());
  const int accepted = assignment.draft.depth(decision.node);
  const auto next = static_cast<int>(decision.next.size());
  assignment.tokens += accepted + next;
  drafter.accepted_tokens += static_cast<uint64_t>(accepted);
  decision.plan = Bounded(decision.plan, drafter.hello);
  drafter.crossing += PartsToCome(assignment);
  const Time now = clock_->Now();
  BeginTrialIfDue(drafter);
  if (!assignment.complete && !assignment.reads) {
    assignment.overdue = {.round = assignment.plan.round, .sent = assignment.sent};
  }
  // What it read before a draft that has begun, it need not read before the next.
  assignment.reads = assignment.reads && assignment.fresh && assignment.parts == 0;
  assignment.plan = decision.plan;
  assignment.sent = now;
  assignment.late = false;
  assignment.draft = {};
  assignment.complete = false;
  assignment.parts = 0;
  if (next > kManyTokens) {
    assignment.reads = true;
    assignment.last_seconds = DraftTiming::kUnknown;
  }
  drafter.decisions.push_back(std::move(decision));
}

void DrafterPool::Close(uint64_t session) {
  const auto it = assignments_.find(session);
  if (it == assignments_.end()) return;
  Drafter& drafter = drafters_.at(it->second.drafter);
  --drafter.sessions;
  drafter.crossing += PartsToCome(it->second);
  std::erase_if(drafter.decisions,
                [session](const RoundDecision& d) { return d.session == session; });
  drafter.link->SendClose(session);
  assignments_.erase(it);
}

void DrafterPool::Flush() {
  for (auto& [id, drafter] : drafters_) {
    if (drafter.decisions.empty()) continue;
    drafter.link->SendDecisions(std::exchange(drafter.decisions, {}));
  }
}

DraftTimeout DrafterPool::SetTimeout(uint64_t session, Duration worth) {
  const auto it = assignments_.find(session);
  if (it == assignments_.end()) return {};
  Assignment& assignment = it->second;
  assignment.worth = Seconds(worth);
  const Punctuality& punctuality = drafters_.at(assignment.drafter).punctuality;
  if (!punctuality.suspended()) {
    return {.usual = FromSeconds(punctuality.Timeout(assignment.worth))};
  }
  if (!assignment.awaited_trial) return {};
  const double timeout = Punctuality::TrialTimeout(assignment.worth);
  next_awaited_trial_ = clock_->Now() + FromSeconds(timeout / kTrialShare);
  return {.usual = FromSeconds(timeout), .trial = true};
}

std::optional<DraftTiming> DrafterPool::Timing(uint64_t session, int tokens) {
  uint64_t id = 0;
  DraftTiming timing;
  const Drafter* drafter = nullptr;
  if (const auto it = assignments_.find(session); it != assignments_.end()) {
    drafter = &drafters_.at(it->second.drafter);
    timing.last = it->second.last_seconds;
  } else if (!draining_) {
    drafter = Best(tokens, true, &id);
  }
  if (drafter == nullptr) return std::nullopt;
  timing.trial = drafter->punctuality.suspended();
  if (timing.trial && !drafter->punctuality.IsTrialDue(clock_->Now())) return std::nullopt;
  timing.acceptance_head = drafter->hello.acceptance_head;
  timing.model = drafter->hello.model;
  const Estimate& round_trip = drafter->punctuality.round_trip();
  if (round_trip.measured) {
    timing.network = std::max(round_trip.mean - drafter->drafting.mean, 0.0);
  }
  if (drafter->depth.measured) timing.depth = drafter->depth.mean;
  return timing;
}

std::string DrafterPool::DrafterName(uint64_t session) const {
  const auto it = assignments_.find(session);
  return it == assignments_.end() ? "" : drafters_.at(it->second.drafter).hello.name;
}

std::vector<DrafterSnapshot> DrafterPool::Snapshot() const {
  std::vector<DrafterSnapshot> out;
  for (const auto& [id, drafter] : drafters_) {
    out.push_back({.name = drafter.hello.name,
                   .model = drafter.hello.model,
                   .sessions = drafter.sessions,
                   .max_sessions = drafter.hello.max_sessions,
                   .connected_seconds = Seconds(clock_->Now() - drafter.joined),
                   .drafted_tokens = drafter.drafted_tokens,
                   .accepted_tokens = drafter.accepted_tokens,
                   .round_trip_ms = drafter.punctuality.round_trip().mean * 1e3,
                   .drafting_ms = drafter.drafting.mean * 1e3,
                   .reported_sessions = drafter.load.sessions,
                   .acceptance_head = drafter.hello.acceptance_head,
                   .silent = drafter.punctuality.silent()});
  }
  return out;
}

}  // namespace outrider
