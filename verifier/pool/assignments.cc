#include "verifier/pool/assignments.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace outrider {

uint64_t Assignment::PartsToCome() const {
  // A drafter that had to give up the session has yet to hear of a plan that was answered early.
  if (asked.complete) return asked.parts == 0 ? 1 : 0;
  return static_cast<uint64_t>(std::max(asked.plan.shape.length - asked.parts, 0));
}

uint64_t Assignment::EarlyToCome() const {
  return static_cast<uint64_t>(asked.early_to_come + kMaxEarlyDrafts) - early.size();
}

bool Assignment::Expects(const DraftPart& part) const {
  if (!part.early.has_value()) return part.round == asked.plan.round;
  // Drafts of a session that was closed and opened again are older.
  return part.round == asked.plan.round + 1 ||
         (part.round == asked.plan.round && asked.early_to_come > 0);
}

Status Assignment::TakePart(DraftChunk part, int vocab_size) {
  if (asked.complete) return InvalidArgument("a part after the last one");
  ++asked.parts;
  asked.complete = !part.more;
  OUTRIDER_TRY(asked.draft.Append(std::move(part)));
  return CheckDraft(asked.draft, vocab_size);
}

Status Assignment::CheckDraft(const DraftTree& draft, int vocab_size) const {
  // A request that matches tokens gets no draft distributions, and a sampled one needs them: a
  // sampled token presented as a point mass would change the output's distribution.
  return Validate(draft, asked.plan.shape, kind == DraftKind::kSampled, vocab_size);
}

Status Assignment::TakeEarly(DraftPart part, int vocab_size) {
  if (part.chunk.tokens.empty() || part.chunk.more) {
    return InvalidArgument("an early draft that is not whole");
  }
  const bool is_for_next = part.round != asked.plan.round;
  if (!is_for_next) {
    --asked.early_to_come;
    if (asked.after != part.early || asked.complete) return Status();
    if (asked.parts > 0) return InvalidArgument("an early draft after a part of the plan's own");
  } else if (early.size() == kMaxEarlyDrafts) {
    return InvalidArgument("more than " + std::to_string(kMaxEarlyDrafts) + " early drafts");
  }
  // Early drafts are for the next plan: either it repeats this one, or they are useless.
  DraftTree draft;
  OUTRIDER_TRY(draft.Append(std::move(part.chunk)));
  OUTRIDER_TRY(CheckDraft(draft, vocab_size));
  if (is_for_next) {
    early.push_back({.end = *part.early, .draft = std::move(draft)});
  } else {
    asked.draft = std::move(draft);
    asked.complete = true;
  }
  return Status();
}

void Assignment::BeginRound(const SessionVerdict& decision, int accepted, Time now) {
  const auto next = static_cast<int>(decision.next.size());
  tokens += accepted + next;
  if (!asked.complete && !reads) overdue = {.round = asked.plan.round, .sent = asked.sent};
  // What it read before a draft that has begun it need not read before the next.
  reads = reads && fresh && asked.parts == 0;
  Asked following = {.plan = decision.plan, .sent = now};
  if (decision.plan.round == asked.plan.round + 1) {
    following.early_to_come = kMaxEarlyDrafts - static_cast<int>(early.size());
  }
  const bool has_fixed_length = decision.plan.stop.kind == StopRule::Kind::kLength;
  if (next == 1 && has_fixed_length && RepeatsPlan(decision.plan, asked.plan)) {
    following.after = RoundEnd{.node = decision.node, .next = decision.next[0]};
  }
  const auto found = std::find_if(early.begin(), early.end(),
                                  [&](const Early& draft) { return draft.end == following.after; });
  if (found != early.end()) {
    following.draft = std::move(found->draft);
    following.complete = true;
  }
  asked = std::move(following);
  early.clear();
  if (next > kManyTokens) {
    reads = true;
    last_seconds = kUnknownSeconds;
  }
}

void Assignments::Add(uint64_t session, Assignment assignment) {
  drafter_sessions_[assignment.drafter].insert(session);
  OUTRIDER_CHECK(assignments_.emplace(session, std::move(assignment)).second);
}

Assignment* Assignments::Find(uint64_t session) {
  const auto found = assignments_.find(session);
  return found == assignments_.end() ? nullptr : &found->second;
}

const Assignment* Assignments::Find(uint64_t session) const {
  const auto found = assignments_.find(session);
  return found == assignments_.end() ? nullptr : &found->second;
}

void Assignments::Remove(uint64_t session) {
  const auto found = assignments_.find(session);
  OUTRIDER_CHECK(found != assignments_.end());
  const auto drafter = drafter_sessions_.find(found->second.drafter);
  drafter->second.erase(session);
  if (drafter->second.empty()) drafter_sessions_.erase(drafter);
  assignments_.erase(found);
}

std::vector<uint64_t> Assignments::RemoveAllOf(uint64_t drafter) {
  std::vector<uint64_t> sessions = SessionsOf(drafter);
  for (const uint64_t session : sessions) assignments_.erase(session);
  drafter_sessions_.erase(drafter);
  return sessions;
}

int Assignments::CountOf(uint64_t drafter) const {
  const auto found = drafter_sessions_.find(drafter);
  return found == drafter_sessions_.end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<uint64_t> Assignments::SessionsOf(uint64_t drafter) const {
  const auto found = drafter_sessions_.find(drafter);
  if (found == drafter_sessions_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

}  // namespace outrider
