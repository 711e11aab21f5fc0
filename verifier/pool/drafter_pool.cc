#include "verifier/pool/drafter_pool.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"

namespace outrider {
namespace {

// Late drafts in a row after which a session leaves a drafter that is not suspended.
constexpr int kLateToMove = 2;
// The share of time that all trials of suspended drafters together may be waited for. Otherwise
// many drafters that never draft, or one that reconnects again and again, would make every request
// wait.
constexpr double kTrialShare = 1. / 40;

// The plan within this drafter's limits.
DraftPlan Bounded(DraftPlan plan, const DrafterHello& hello) {
  plan.shape.length = std::min(plan.shape.length, hello.max_draft_length);
  while (plan.shape.length > 1 && plan.shape.total_draws() > hello.max_draft_tokens) {
    --plan.shape.length;
  }
  return plan;
}

}  // namespace

DrafterPool::DrafterPool(TargetIdentity target, const DraftDistributionLimits& distribution_limits,
                         VerifierMetrics* metrics, const Clock* clock,
                         const DrafterRosterOptions& options)
    : metrics_(metrics),
      clock_(clock),
      roster_(std::move(target), distribution_limits, metrics, clock, options, &assignments_,
              [this](uint64_t drafter) {
                decisions_.erase(drafter);
                for (const uint64_t session : assignments_.RemoveAllOf(drafter)) {
                  consumer_->OnDrafterLost(session);
                }
              }) {}

void DrafterPool::OnDrafts(uint64_t id, std::vector<DraftPart> parts, size_t bytes,
                           std::optional<Time> arrived) {
  if (metrics_ != nullptr) {
    metrics_->draft_bytes_received_total.Increment(static_cast<double>(bytes));
  }
  for (DraftPart& part : parts) {
    if (!roster_.drafters().contains(id)) return;
    const Status taken = TakePart(id, part, arrived.value_or(clock_->Now()));
    if (taken.ok()) continue;
    return roster_.Expel(id, taken.Annotate("session " + std::to_string(part.session) + ", round " +
                                            std::to_string(part.round)));
  }
}

Status DrafterPool::TakePart(uint64_t id, DraftPart& part, Time arrived) {
  ConnectedDrafter& drafter = roster_.At(id);
  drafter.last_message = clock_->Now();
  const bool suspended = drafter.punctuality.suspended();
  const auto tokens = part.chunk.tokens.size();
  Assignment* assignment = assignments_.Find(part.session);
  if (assignment != nullptr && assignment->drafter != id) assignment = nullptr;
  if (assignment == nullptr || !assignment->Expects(part)) {
    OUTRIDER_TRY(TakeCrossing(drafter, assignment, part, arrived));
  } else if (part.early.has_value()) {
    OUTRIDER_TRY(TakeEarly(drafter, *assignment, std::move(part), arrived));
  } else if (tokens == 0) {
    TakeRefusal(part.session, drafter, *assignment, arrived);
  } else {
    OUTRIDER_TRY(assignment->TakePart(std::move(part.chunk), roster_.vocab_limit()));
    drafter.drafted_tokens += tokens;
    if (assignment->asked.complete) RecordDraft(drafter, *assignment, part.seconds, arrived);
    consumer_->OnDraft(part.session, part.round, assignment->asked.draft,
                       assignment->asked.complete);
  }
  ReportSuspension(id, drafter, suspended);
  return Status();
}

Status DrafterPool::TakeEarly(ConnectedDrafter& drafter, Assignment& assignment, DraftPart part,
                              Time arrived) {
  const uint64_t session = part.session;
  const bool was_complete = assignment.asked.complete;
  if (metrics_ != nullptr) metrics_->early_drafts_total.Increment();
  OUTRIDER_TRY(assignment.TakeEarly(std::move(part), roster_.vocab_limit()));
  if (was_complete || !assignment.asked.complete) return Status();
  const double waited = std::max(0.0, Seconds(arrived - assignment.asked.sent));
  if (drafter.punctuality.suspended()) {
    drafter.punctuality.RecordDraft(clock_->Now(), waited, assignment.worth, assignment.asked.late);
  }
  RecordEarly(drafter, assignment, waited);
  consumer_->OnDraft(session, assignment.asked.plan.round, assignment.asked.draft,
                     /*complete=*/true);
  return Status();
}

void DrafterPool::RecordEarly(ConnectedDrafter& drafter, Assignment& assignment, double waited) {
  drafter.drafted_tokens += static_cast<uint64_t>(assignment.asked.draft.total_draws());
  drafter.early.Add(1);
  assignment.last_seconds = kUnknownSeconds;
  assignment.last_round_trip = waited;
  assignment.late_in_a_row = 0;
  if (metrics_ != nullptr) metrics_->early_drafts_used_total.Increment();
}

void DrafterPool::TakeRefusal(uint64_t session, ConnectedDrafter& drafter,
                              const Assignment& assignment, Time arrived) {
  if (!assignment.asked.late) {
    drafter.punctuality.RecordRefusal(clock_->Now(), Seconds(arrived - assignment.asked.sent));
  }
  assignments_.Remove(session);
  consumer_->OnRefused(session);
}

Status DrafterPool::TakeCrossing(ConnectedDrafter& drafter, Assignment* assignment,
                                 const DraftPart& part, Time arrived) {
  const bool future = assignment != nullptr && part.round > assignment->asked.plan.round;
  uint64_t& to_come = part.early.has_value() ? drafter.crossing_early : drafter.crossing_parts;
  if (future || to_come == 0) return InvalidArgument("a draft nobody asked for");
  --to_come;
  if (metrics_ != nullptr) {
    metrics_->draft_tokens_late_total.Increment(static_cast<double>(part.chunk.tokens.size()));
  }
  const bool whole = !part.early.has_value() && !part.chunk.more && !part.chunk.tokens.empty();
  if (assignment == nullptr || !whole || part.round != assignment->overdue.round) return Status();
  const double round_trip = std::max(0.0, Seconds(arrived - assignment->overdue.sent));
  drafter.punctuality.RecordDraft(clock_->Now(), round_trip, assignment->worth, /*late=*/true);
  drafter.drafting.Add(std::clamp(part.seconds, 0.0, round_trip));
  assignment->overdue = {};
  assignment->fresh = false;
  return Status();
}

void DrafterPool::RecordDraft(ConnectedDrafter& drafter, Assignment& assignment,
                              double seconds_drafting, Time arrived) {
  const double round_trip = std::max(0.0, Seconds(arrived - assignment.asked.sent));
  assignment.last_round_trip = round_trip;
  const double drafting = std::clamp(seconds_drafting, 0.0, round_trip);
  const bool suspended = drafter.punctuality.suspended();
  const bool counts = suspended || !assignment.reads;
  if (counts) {
    drafter.punctuality.RecordDraft(clock_->Now(), round_trip, assignment.worth,
                                    assignment.asked.late);
  }
  if (suspended && !drafter.punctuality.suspended()) {
    drafter.drafting = drafter.depth = {};
    drafter.network = {};
  } else if (suspended && assignment.fresh && assignment.tokens > Assignment::kManyTokens) {
    // It had a prompt to read; its next draft will show its usual time.
    drafter.punctuality.RepeatTrial(clock_->Now());
  }
  if (counts) drafter.drafting.Add(drafting);
  if (!assignment.reads) {
    drafter.depth.Add(drafting / assignment.asked.draft.max_depth());
    if (assignment.asked.after.has_value()) drafter.early.Add(0);
    // MarkLate has counted a late one.
    if (!assignment.asked.late) drafter.network.Add(round_trip - drafting);
    assignment.last_seconds = drafting;
    if (metrics_ != nullptr) {
      metrics_->draft_round_trip_seconds.Observe(round_trip);
      metrics_->draft_drafting_seconds.Observe(drafting);
    }
  }
  assignment.fresh = false;
  assignment.reads = false;
  if (!assignment.asked.late) assignment.late_in_a_row = 0;
}

bool DrafterPool::BeginTrialIfDue(ConnectedDrafter& drafter) {
  const Time now = clock_->Now();
  if (!drafter.punctuality.suspended() || !drafter.punctuality.IsTrialDue(now)) return false;
  drafter.punctuality.BeginTrial(now);
  roster_.CountDrafters();
  return true;
}

void DrafterPool::ReportSuspension(uint64_t id, const ConnectedDrafter& drafter, bool before) {
  const bool suspended = drafter.punctuality.suspended();
  if (suspended == before) return;
  roster_.CountDrafters();
  if (suspended) {
    Log(LogLevel::kWarning, "drafter is late; its drafts are not waited for",
        {{"drafter", drafter.hello.name}});
    return;
  }
  Log(LogLevel::kInfo, "drafter is in time: its drafts are waited for",
      {{"drafter", drafter.hello.name}});
  for (const uint64_t session : assignments_.SessionsOf(id)) consumer_->OnDrafterBack(session);
}

std::optional<uint64_t> DrafterPool::Choose(int tokens, bool try_silent) const {
  return ChooseDrafter(roster_.drafters(), assignments_, tokens, try_silent, clock_->Now());
}

bool DrafterPool::HasRoom(int tokens) {
  return !roster_.draining() && ChooseForNew(tokens).has_value();
}

std::optional<uint64_t> DrafterPool::ChooseForNew(int tokens) {
  roster_.RecordFull(tokens);
  return Choose(tokens, /*try_silent=*/true);
}

void DrafterPool::Open(SessionOpening opening) {
  const auto tokens = static_cast<int>(opening.tokens.size());
  const std::optional<uint64_t> id =
      Choose(tokens + opening.plan.shape.length, /*try_silent=*/true);
  OUTRIDER_CHECK(id.has_value());
  ConnectedDrafter& drafter = roster_.At(*id);
  const Time now = clock_->Now();
  const bool trial = BeginTrialIfDue(drafter);
  const bool awaited_trial =
      trial && drafter.punctuality.MayResume(now) && now >= next_awaited_trial_;
  opening.plan = Bounded(std::move(opening.plan), drafter.hello);
  assignments_.Add(opening.session, {.drafter = *id,
                                     .tokens = tokens,
                                     .asked = {.plan = opening.plan, .sent = now},
                                     .opened = now,
                                     .trial = trial,
                                     .awaited_trial = awaited_trial,
                                     .kind = opening.kind});
  drafter.link->SendOpen(std::move(opening));
}

void DrafterPool::MarkLate(uint64_t session) {
  Assignment* const found = assignments_.Find(session);
  if (found == nullptr) return;
  Assignment& assignment = *found;
  ConnectedDrafter& drafter = roster_.At(assignment.drafter);
  const bool suspended = drafter.punctuality.suspended();
  assignment.asked.late = true;
  assignment.awaited_trial = false;
  ++assignment.late_in_a_row;
  // A long prompt takes time to read, which another drafter would need as well.
  const bool may_read = assignment.fresh && assignment.asked.parts == 0;
  if (may_read && !suspended && assignment.late_in_a_row < kLateToMove) return;
  const double taken = Seconds(clock_->Now() - assignment.asked.sent);
  const bool reads = assignment.reads && assignment.asked.parts == 0;
  drafter.punctuality.MarkLate(clock_->Now(), reads ? 0 : taken,
                               /*nothing_arrived=*/drafter.last_message <= assignment.asked.sent);
  if (!reads) drafter.network.AddAtLeast(taken - drafter.drafting.mean);
  ReportSuspension(assignment.drafter, drafter, suspended);
}

bool DrafterPool::ReassignSession(uint64_t session) {
  const Assignment* const assignment = assignments_.Find(session);
  if (assignment == nullptr || roster_.draining()) return false;
  const uint64_t from = assignment->drafter;
  ConnectedDrafter& drafter = roster_.At(from);
  const bool suspended = drafter.punctuality.suspended();
  if (!suspended && assignment->late_in_a_row < kLateToMove) return false;
  // A trial may take as long as any draft that is waited for.
  const double held = Seconds(clock_->Now() - assignment->opened);
  if (suspended && assignment->trial && held < Punctuality::kMaxTimeout) return false;
  const std::optional<uint64_t> to =
      Choose(assignment->tokens + assignment->asked.plan.shape.length, /*try_silent=*/false);
  if (!to.has_value() || *to == from) return false;
  const auto expected = [this](uint64_t id) {
    return ExpectedSeconds(roster_.At(id), assignments_.CountOf(id));
  };
  if (!suspended && expected(*to) >= expected(from)) return false;
  // The session should not return to the drafter that it comes from.
  BeginTrialIfDue(drafter);
  if (metrics_ != nullptr) metrics_->sessions_moved_total.Increment();
  Close(session);
  return true;
}

void DrafterPool::Decide(SessionVerdict decision) {
  Assignment* const assignment = assignments_.Find(decision.session);
  if (assignment == nullptr) return;
  OUTRIDER_CHECK(decision.node <= assignment->asked.draft.size());
  ConnectedDrafter& drafter = roster_.At(assignment->drafter);
  const int accepted = assignment->asked.draft.depth(decision.node);
  BeginTrialIfDue(drafter);
  decision.plan = Bounded(std::move(decision.plan), drafter.hello);
  drafter.crossing_parts += assignment->PartsToCome();
  drafter.crossing_early += assignment->EarlyToCome();
  assignment->BeginRound(decision, accepted, clock_->Now());
  drafter.crossing_early -= static_cast<uint64_t>(assignment->asked.early_to_come);
  if (assignment->asked.complete) RecordEarly(drafter, *assignment, /*waited=*/0);
  decisions_[assignment->drafter].push_back(std::move(decision));
}

const DraftTree* DrafterPool::EarlyDraft(uint64_t session) const {
  const Assignment* const assignment = assignments_.Find(session);
  const bool is_here = assignment != nullptr && assignment->asked.complete;
  return is_here ? &assignment->asked.draft : nullptr;
}

void DrafterPool::Close(uint64_t session) {
  const Assignment* const assignment = assignments_.Find(session);
  if (assignment == nullptr) return;
  ConnectedDrafter& drafter = roster_.At(assignment->drafter);
  drafter.crossing_parts += assignment->PartsToCome();
  drafter.crossing_early += assignment->EarlyToCome();
  std::erase_if(decisions_[assignment->drafter],
                [session](const SessionVerdict& d) { return d.session == session; });
  drafter.link->SendClose(session);
  assignments_.Remove(session);
}

void DrafterPool::RecordAccepted(uint64_t session, int tokens) {
  const Assignment* const assignment = assignments_.Find(session);
  if (assignment == nullptr) return;  // the drafter has left since it sent the draft
  roster_.At(assignment->drafter).accepted_tokens += static_cast<uint64_t>(tokens);
}

void DrafterPool::Flush() {
  const Time now = clock_->Now();
  for (auto& [id, decisions] : decisions_) {
    if (decisions.empty()) continue;
    for (const SessionVerdict& decision : decisions) {
      Assignment* const assignment = assignments_.Find(decision.session);
      if (assignment != nullptr) assignment->asked.sent = now;
    }
    roster_.At(id).link->SendVerdicts(std::exchange(decisions, {}));
  }
}

DraftTimeout DrafterPool::SetTimeout(uint64_t session, Duration worth, Duration step) {
  Assignment* const assignment = assignments_.Find(session);
  if (assignment == nullptr) return {};
  assignment->worth = Seconds(worth);
  const Punctuality& punctuality = roster_.At(assignment->drafter).punctuality;
  if (!punctuality.suspended()) {
    return {.usual = FromSeconds(punctuality.Timeout(assignment->worth, Seconds(step)))};
  }
  if (!assignment->awaited_trial) return {};
  const double timeout = Punctuality::TrialTimeout(assignment->worth);
  next_awaited_trial_ = clock_->Now() + FromSeconds(timeout / kTrialShare);
  return {.usual = FromSeconds(timeout), .trial = true};
}

std::optional<DraftTiming> DrafterPool::Timing(uint64_t session, int tokens) {
  DraftTiming timing;
  std::optional<uint64_t> id;
  if (const Assignment* const assignment = assignments_.Find(session)) {
    id = assignment->drafter;
    timing.last = assignment->last_seconds;
    timing.last_round_trip = assignment->last_round_trip;
  } else if (!roster_.draining()) {
    id = ChooseForNew(tokens);
  }
  if (!id.has_value()) return std::nullopt;
  const ConnectedDrafter& drafter = roster_.At(*id);
  timing.trial = drafter.punctuality.suspended();
  if (timing.trial && !drafter.punctuality.IsTrialDue(clock_->Now())) return std::nullopt;
  timing.acceptance_head = drafter.hello.acceptance_head;
  timing.model = drafter.hello.model;
  timing.network = drafter.NetworkSeconds().value_or(kUnknownSeconds);
  if (drafter.depth.measured) timing.depth = drafter.depth.mean;
  timing.early = drafter.early.value;
  return timing;
}

std::string DrafterPool::DrafterName(uint64_t session) const {
  const Assignment* const assignment = assignments_.Find(session);
  return assignment == nullptr ? "" : roster_.drafters().at(assignment->drafter).hello.name;
}

}  // namespace outrider
