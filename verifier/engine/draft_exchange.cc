#include "verifier/engine/draft_exchange.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "common/trace/trace_context.h"
#include "verifier/propose/point_draft.h"

namespace outrider {
namespace {

SessionOpening OpeningOf(const Session& session, const DraftPlan& plan) {
  const std::optional<TraceLink>& trace = session.request.trace;
  return {.session = session.id,
          .tokens = session.tokens,
          .prompt_tokens = session.prompt_tokens,
          .sampling = session.request.sampling,
          .seed = session.seed,
          .kind = session.speculation.kind,
          .plan = plan,
          .traceparent = trace.has_value() ? FormatTraceparent(trace->context) : ""};
}

}  // namespace

DraftExchange::DraftExchange(const Parts& parts, const std::optional<PlannerOptions>& planner,
                             int kv_tokens, VerifierMetrics* metrics)
    : parts_(parts), kv_tokens_(kv_tokens) {
  if (planner.has_value()) planner_.emplace(*planner, metrics);
}

void DraftExchange::Open(Session& session) {
  const GenerationRequest& request = session.request;
  if (request.speculation.enabled && parts_.drafts != nullptr) {
    session.drafting = DraftingState(
        DependsOnDrafts(request, session.speculation) ? kSeededWait : Duration::zero());
  }
  if (planner_.has_value()) session.planner = planner_->Open(request, session.speculation);
}

int DraftExchange::DraftRoom(const Session& session) const {
  // Limited by what the whole cache could hold and by this session's share of a forward pass (a
  // quarter is reserved for prompts), so that speculation never costs another session its turn.
  // Bounds depend on counts alone, never on tokens.
  const int share =
      parts_.pace->row_budget() * 3 / 4 / std::max(parts_.admission->running(), 1) - 1;
  return std::min(kv_tokens_ - static_cast<int>(session.tokens.size()), share);
}

DraftShape DraftExchange::NextShape(const Session& session) const {
  DraftShape shape = session.speculation.shape;
  // The last token of a round is the target's own, so a draft of all that remains would waste one.
  shape.length = std::min(shape.length, session.remaining() - 1);
  // Under load drafts get narrower first, then shorter, then none.
  const int room = DraftRoom(session);
  if (shape.total_draws() > room) shape.branching.clear();
  shape.length = std::max(std::min(shape.length, room), 0);
  return shape;
}

NextRound DraftExchange::ChooseRound(Session& session) {
  const bool rested = session.drafting.is_rested(session.round);
  if (session.planner == nullptr) {
    NextRound next{.rule = session.speculation.rule, .stop = session.speculation.stop};
    if (rested) next.shape = NextShape(session);
    return next;
  }
  // Long prompts are read in pieces; what rounds add is always read.
  constexpr size_t kOfRound = 64;
  const std::span<const TokenId> tokens = session.tokens;
  const std::span<const TokenId> unread = tokens.subspan(session.planner->read());
  const size_t piece = std::min(unread.size(), std::max(may_read_, kOfRound));
  session.planner->Read(unread.first(piece));
  may_read_ -= std::min(piece, may_read_);
  return session.planner->Choose(
      {.remaining = session.remaining(),
       .room = DraftRoom(session),
       .drafter = rested ? parts_.drafts->Timing(session.id, static_cast<int>(tokens.size()))
                         : std::nullopt,
       .is_open = session.drafting.is_attached()},
      tokens.size());
}

void DraftExchange::PlanAdmitted(Session& session) {
  // What a lost drafter left is scored first, because the next drafter does not know its nodes.
  const DraftingState& drafting = session.drafting;
  const bool plans = !drafting.is_off() || session.text_grammar != nullptr;
  if (plans && !drafting.is_attached() && drafting.draft().empty()) PlanNext(session);
}

void DraftExchange::PlanNext(Session& session) {
  DraftingState& drafting = session.drafting;
  if (drafting.is_off() && session.planner == nullptr && session.text_grammar == nullptr) return;
  if (session.planner != nullptr && session.planner->pending()) return;  // it was preempted
  if (draining_ || session.remaining() <= 1) {                           // no more plans
    if (drafting.is_attached()) parts_.drafts->Close(session.id);
    drafting.TurnOff();
    return;
  }
  session.round_begun = parts_.clock->Now();
  if (DraftForced(session)) return;
  if (drafting.is_attached() && parts_.drafts->ReassignSession(session.id)) drafting.Detach();
  NextRound next = ChooseRound(session);
  session.speculation.rule = next.rule;
  if (next.shape.length > 0 && !drafting.is_off()) {
    if (next.stop.kind == StopRule::Kind::kHead && next.stop.threshold == 0.f) {
      next.stop.threshold = HeadThreshold(session);
    }
    SendPlan(session, next.shape, next.stop);
    return;
  }
  drafting.UseOwnDraft(AllowedPart(session, std::move(next.draft)));
}

bool DraftExchange::DraftForced(Session& session) {
  if (session.text_grammar == nullptr || !session.request.speculation.enabled) return false;
  const int most =
      std::min({DraftRoom(session), session.remaining() - 1, parts_.max_forced_tokens});
  const std::vector<TokenId> forced = session.text_grammar->Forced(most, *parts_.mask_scratch);
  if (forced.empty()) return false;
  session.drafting.UseOwnDraft(ToDraft(forced, session.speculation.kind), /*is_forced=*/true);
  return true;
}

DraftTree DraftExchange::AllowedPart(const Session& session, DraftTree draft) {
  if (session.text_grammar == nullptr || draft.empty()) return draft;
  std::vector<TokenId> tokens = draft.Path(draft.size());
  const size_t read = session.text_grammar->Reads(tokens, *parts_.mask_scratch);
  if (read == tokens.size()) return draft;
  return ToDraft(std::span(tokens).first(read), session.speculation.kind);
}

// Returns 0, the drafter's own threshold, until the session has shown its acceptance.
float DraftExchange::HeadThreshold(const Session& session) const {
  // A learned threshold may depend on the same random numbers, so the text would not repeat.
  if (DependsOnDrafts(session.request, session.speculation)) return kFirstHeadThreshold;
  constexpr int kEnough = 16;  // tokens
  const int output = static_cast<int>(session.tokens.size()) - session.prompt_tokens;
  const std::optional<DraftTiming> timing = parts_.drafts->Timing(session.id, 0);
  if (!planner_.has_value() || output < kEnough || !timing.has_value() ||
      std::isnan(timing->depth)) {
    return 0.f;
  }
  const double seconds = Seconds(parts_.clock->Now() - session.times.first_token);
  if (seconds <= 0) return 0.f;
  // A prior of five draft tokens, of which three were accepted. Every draft ends with a rejected
  // one.
  const double accepted = 3 + static_cast<double>(session.summary.accepted_tokens);
  const double acceptance =
      accepted / (2 + accepted + static_cast<double>(session.summary.drafted_rounds));
  return planner_->HeadThreshold(output / seconds, timing->depth, acceptance);
}

void DraftExchange::SendPlan(Session& session, const DraftShape& shape, const StopRule& stop) {
  DraftingState& drafting = session.drafting;
  const DraftPlan plan = {.round = session.round, .shape = shape, .stop = stop};
  const Time now = parts_.clock->Now();
  if (drafting.is_attached()) {
    parts_.drafts->Decide(drafting.Decision(session.id, plan));
    unsent_.push_back(session.id);
  } else if (parts_.drafts->HasRoom(static_cast<int>(session.tokens.size()) + shape.length)) {
    parts_.drafts->Open(OpeningOf(session, plan));
  } else {
    return;
  }
  // The first round does not wait, because time to first token counts more. A seeded request with
  // fixed plans waits there, too, so that its rounds repeat.
  const bool waits =
      session.round > 1 || (session.planner == nullptr && session.request.seed.has_value());
  drafting.Await(plan, SetTimeout(session, shape), waits, now);
  const DraftTree* const early = parts_.drafts->EarlyDraft(session.id);
  if (early != nullptr && drafting.Expects(plan.round)) drafting.TakeDraft(*early, now);
}

DraftTimeout DraftExchange::SetTimeout(const Session& session, const DraftShape& shape) {
  const double step = parts_.pace->step_seconds();
  if (step <= 0) return parts_.drafts->SetTimeout(session.id, std::chrono::hours(1), {});
  // A draft that is short because the request ends is worth no less.
  const int tokens = std::max(shape.length, session.speculation.shape.length);
  return parts_.drafts->SetTimeout(session.id, FromSeconds(tokens * step), FromSeconds(step));
}

void DraftExchange::MarkLate(Session& session) {
  parts_.observers->Notify(&EngineObserver::OnDraftLate, session);
  session.drafting.Expire(parts_.clock->Now());
  parts_.drafts->MarkLate(session.id);
}

void DraftExchange::Close(const Session& session) {
  if (session.drafting.is_attached()) parts_.drafts->Close(session.id);
}

void DraftExchange::RecordAccepted(const Session& session, int tokens) {
  if (session.drafting.is_attached()) parts_.drafts->RecordAccepted(session.id, tokens);
}

void DraftExchange::Flush() {
  if (parts_.drafts == nullptr) return;
  parts_.drafts->Flush();
  const Time now = parts_.clock->Now();
  for (const uint64_t id : unsent_) {
    if (Session* const session = Find(id)) session->drafting.MarkSent(now);
  }
  unsent_.clear();
}

void DraftExchange::OnForward(const PlannedStep& step) {
  may_read_ = kReadOfStep;
  if (planner_.has_value()) planner_->OnStep(step);
}

std::string DraftExchange::DrafterName(const Session& session) const {
  return parts_.drafts != nullptr ? parts_.drafts->DrafterName(session.id) : "";
}

Session* DraftExchange::Find(uint64_t session) const {
  const auto it = parts_.sessions->find(session);
  return it == parts_.sessions->end() ? nullptr : it->second.get();
}

void DraftExchange::OnDraft(uint64_t id, uint32_t round, const DraftTree& draft, bool complete) {
  Session* const session = Find(id);
  if (session == nullptr) return;
  DraftingState& drafting = session->drafting;
  if (!drafting.Expects(round)) return;  // too late: the round went on without it
  if (!complete) return drafting.TakePart(draft);
  const Time now = parts_.clock->Now();
  if (session->planner != nullptr) {
    if (const std::optional<DraftTiming> timing = parts_.drafts->Timing(id, 0)) {
      const double total = Seconds(now - drafting.plan_sent());
      session->planner->OnDraftComplete(std::max(0.0, total - timing->last_round_trip));
      if (IsSeconds(timing->last)) {
        session->planner->OnDrafted(draft, timing->last_round_trip, timing->last);
      }
    }
  }
  drafting.TakeDraft(draft, now);
}

void DraftExchange::OnDrafterLost(uint64_t id) {
  if (Session* const session = Find(id)) session->drafting.MarkLost(session->round);
}

void DraftExchange::OnDrafterBack(uint64_t id) {
  if (Session* const session = Find(id)) session->drafting.EndRest();
}

void DraftExchange::OnRefused(uint64_t id) {
  if (Session* const session = Find(id)) session->drafting.MarkRefused(session->round);
}

}  // namespace outrider
