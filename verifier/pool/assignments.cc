#include "verifier/pool/assignments.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {

uint64_t Assignment::PartsToCome() const {
  if (asked.complete) return 0;
  return static_cast<uint64_t>(std::max(asked.plan.shape.length - asked.parts, 0));
}

Status Assignment::TakePart(DraftChunk part, int vocab_size) {
  if (asked.complete) return InvalidArgument("a part after the last one");
  ++asked.parts;
  asked.complete = !part.more;
  OUTRIDER_TRY(asked.draft.Append(std::move(part)));
  // A request that matches tokens has no draft distributions and a sampled one needs them: a
  // sampled token called a point mass would bend the output's distribution.
  return Validate(asked.draft, asked.plan.shape, kind == DraftKind::kSampled, vocab_size);
}

void Assignment::BeginRound(const DraftPlan& next_plan, int accepted, int next, Time now) {
  tokens += accepted + next;
  if (!asked.complete && !reads) overdue = {.round = asked.plan.round, .sent = asked.sent};
  // What it read before a draft that has begun, it need not read before the next.
  reads = reads && fresh && asked.parts == 0;
  asked = {.plan = next_plan, .sent = now};
  if (next > kManyTokens) {
    reads = true;
    last_seconds = DraftTiming::kUnknown;
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
