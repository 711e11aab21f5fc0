#include "drafter/subset/verifier_subset.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/fnv_hash.h"
#include "common/base/mix_bits.h"
#include "drafter/subset/demand_balance.h"

namespace outrider {
namespace {

// The mean pause before a verifier that failed is tried again, which doubles with each failure.
constexpr Duration kFirstBackOff = std::chrono::seconds(10);
constexpr Duration kLongestBackOff = std::chrono::minutes(10);

uint64_t HashOf(const std::string& text) {
  FnvHash hash;
  hash.Add(text);
  return hash.value();
}

}  // namespace

const char* ToString(SubsetReason reason) {
  switch (reason) {
    case SubsetReason::kFill: return "fill";
    case SubsetReason::kGone: return "gone";
    case SubsetReason::kLost: return "lost";
    case SubsetReason::kRefused: return "refused";
    case SubsetReason::kDemand: return "demand";
    case SubsetReason::kZone: return "zone";
  }
  return "";
}

VerifierSubset::VerifierSubset(SubsetOptions options, Time now)
    : options_(std::move(options)),
      name_hash_(MixBits(HashOf(options_.drafter))),
      addresses_(std::make_shared<const std::vector<std::string>>()),
      next_(now) {
  OUTRIDER_CHECK(options_.size >= 1 && options_.size <= kMaxSubset);
  tick_ = now + Jittered(options_.rebalance);
}

uint64_t VerifierSubset::Weight(const std::string& address) const {
  return MixBits(name_hash_ ^ HashOf(address));
}

double VerifierSubset::Draw() { return UnitOf(MixBits(name_hash_ + kSplitMixStep * ++draws_)); }

Duration VerifierSubset::Jittered(Duration mean) {
  return std::chrono::duration_cast<Duration>(mean * (0.5 + Draw()));
}

void VerifierSubset::SetAddresses(Addresses addresses) {
  OUTRIDER_CHECK(addresses != nullptr);
  if (*addresses == *addresses_) return;
  const Addresses before = std::exchange(addresses_, std::move(addresses));
  constexpr uint32_t kGone = ~0u;
  std::vector<uint32_t> indexes_now(before->size(), kGone);  // by the index before
  using Rank = std::pair<uint64_t, uint32_t>;                // the lowest is the best
  const auto rank_of = [this](uint32_t i) { return Rank(~Weight((*addresses_)[i]), i); };
  std::vector<Rank> added;
  size_t old = 0;
  for (uint32_t i = 0; i < addresses_->size(); ++i) {
    const std::string& address = (*addresses_)[i];
    while (old < before->size() && (*before)[old] < address) ++old;
    if (old < before->size() && (*before)[old] == address) {
      indexes_now[old] = i;
    } else {
      added.push_back(rank_of(i));
    }
  }
  for (uint32_t& index : by_rank_) index = indexes_now[index];
  std::erase(by_rank_, kGone);
  std::sort(added.begin(), added.end());
  auto at = by_rank_.begin();  // those before it rank before the rest of `added`
  for (const Rank& rank : added) {
    at = std::partition_point(at, by_rank_.end(), [&](uint32_t i) { return rank_of(i) < rank; });
    at = by_rank_.insert(at, rank.second) + 1;
  }
  // A new address may be high in rank, so the next visits begin with those.
  if (!added.empty()) visit_at_ = 0;
  std::erase_if(memory_, [this](const auto& entry) { return !Knows(entry.first); });
}

bool VerifierSubset::Knows(const std::string& address) const {
  return std::binary_search(addresses_->begin(), addresses_->end(), address);
}

VerifierSubset::Zone VerifierSubset::ZoneOf(const std::string& address) const {
  if (options_.zone.empty()) return Zone::kUnknown;
  const auto it = memory_.find(address);
  if (it == memory_.end() || it->second.zone.empty()) return Zone::kUnknown;
  return it->second.zone == options_.zone ? Zone::kOwn : Zone::kOther;
}

void VerifierSubset::LearnZone(const std::string& address, const std::string& zone) {
  if (!zone.empty() && Knows(address)) memory_[address].zone = zone;
}

void VerifierSubset::BackOff(const std::string& address, Time now) {
  if (!Knows(address)) return;
  Memory& memory = memory_[address];
  constexpr int kMaxDoublings = 10;
  const Duration pause = kFirstBackOff * (1 << std::min(memory.failures++, kMaxDoublings));
  memory.not_before = now + Jittered(std::min(pause, kLongestBackOff));
}

bool VerifierSubset::MayTry(const std::string& address, Time now) const {
  if (held_.contains(address)) return false;
  const auto it = memory_.find(address);
  return it == memory_.end() || it->second.not_before <= now;
}

const std::string* VerifierSubset::Candidate(Time now) const {
  const std::string* best = nullptr;
  for (const auto& [address, memory] : memory_) {
    if (ZoneOf(address) != Zone::kOwn || !MayTry(address, now)) continue;
    if (best == nullptr || Weight(address) > Weight(*best)) best = &address;
  }
  if (best != nullptr) return best;
  for (const uint32_t index : by_rank_) {
    const std::string& address = (*addresses_)[index];
    if (!MayTry(address, now)) continue;
    if (ZoneOf(address) != Zone::kOther) return &address;
    if (best == nullptr) best = &address;
  }
  return best;
}

void VerifierSubset::Attach(const std::string& address, SubsetReason reason, Time now) {
  leaving_.erase(address);
  Held& held = held_[address];
  held.away_since = now;
  held.reason = reason;
  changes_.push_back({.kind = SubsetChange::Kind::kAttach, .reason = reason, .address = address});
}

void VerifierSubset::Leave(std::map<std::string, Held>::iterator it, SubsetReason reason) {
  changes_.push_back({.kind = SubsetChange::Kind::kLeave, .reason = reason, .address = it->first});
  leaving_.insert(it->first);
  held_.erase(it);
}

void VerifierSubset::OnAttached(const std::string& address, const std::string& zone) {
  const auto it = held_.find(address);
  if (it == held_.end()) return;
  it->second.away_since.reset();
  it->second.refused = false;
  LearnZone(address, zone);
  if (const auto known = memory_.find(address); known != memory_.end()) {
    known->second.failures = 0;
    known->second.lost = false;
  }
}

void VerifierSubset::OnDetached(const std::string& address, Time now) {
  const auto it = held_.find(address);
  if (it == held_.end()) return;
  it->second.away_since = now;
  it->second.demand.reset();
}

void VerifierSubset::OnRefused(const std::string& address, Time now) {
  const auto it = held_.find(address);
  if (it == held_.end()) return;
  if (!it->second.away_since.has_value()) it->second.away_since = now;
  it->second.refused = true;
}

void VerifierSubset::OnDemand(const std::string& address, const DrafterDemand& demand) {
  if (const auto it = held_.find(address); it != held_.end()) it->second.demand = demand;
}

void VerifierSubset::OnLeft(const std::string& address) { leaving_.erase(address); }

void VerifierSubset::OnFailed(const std::string& address, Time now) {
  if (visiting_ == address) visiting_.clear();
  BackOff(address, now);
}

void VerifierSubset::OnVisited(const std::string& address, const std::string& zone,
                               std::optional<DrafterDemand> demand, Time now) {
  if (visiting_ == address) visiting_.clear();
  if (!Knows(address)) return;
  LearnZone(address, zone);
  if (const auto known = memory_.find(address); known != memory_.end()) known->second.lost = false;
  if (!demand.has_value()) {
    memory_[address].not_before = now + kLongestBackOff;
    return;
  }
  if (held_.contains(address)) return;
  const Move move = BestMove(address, *demand);
  if (move.probability == 0 || Draw() >= move.probability) return;
  Attach(address, move.reason, now);
  held_[address].replaces = move.from;
}

VerifierSubset::Move VerifierSubset::BestMove(const std::string& to,
                                              const DrafterDemand& demand) const {
  Move best;
  double most = 0;  // drafters to move
  for (const auto& [from, held] : held_) {
    if (held.away_since.has_value() || !held.demand.has_value()) continue;
    MoveKind kind = MoveKind::kSameZone;
    if (ZoneOf(to) == Zone::kOwn && ZoneOf(from) == Zone::kOther) kind = MoveKind::kToOwnZone;
    if (ZoneOf(to) == Zone::kOther && ZoneOf(from) == Zone::kOwn) kind = MoveKind::kFromOwnZone;
    const double probability = MoveProbability(*held.demand, demand, kind);
    // A verifier that suspends all its drafters says that none is attached, but this one is.
    const double drafters = probability * std::max(held.demand->attached, 1);
    if (drafters <= most) continue;
    most = drafters;
    best = {.from = from,
            .reason = kind == MoveKind::kToOwnZone ? SubsetReason::kZone : SubsetReason::kDemand,
            .probability = probability};
  }
  return best;
}

std::vector<SubsetChange> VerifierSubset::Advance(Time now) {
  LeaveUnknown();
  LeaveReplaced();
  ReplaceLost(now);
  Fill(now);
  VisitNext(now);
  SetNext(now);
  return std::exchange(changes_, {});
}

void VerifierSubset::LeaveUnknown() {
  for (auto it = held_.begin(); it != held_.end();) {
    const auto here = it++;
    if (!Knows(here->first)) Leave(here, SubsetReason::kGone);
  }
}

void VerifierSubset::LeaveReplaced() {
  for (auto& [address, held] : held_) {
    if (held.replaces.empty() || held.away_since.has_value()) continue;
    const auto from = held_.find(std::exchange(held.replaces, {}));
    if (from == held_.end()) continue;
    Leave(from, held.reason);
    return;  // one move is under way at a time
  }
}

bool VerifierSubset::IsBeingReplaced(const std::string& address) const {
  return std::any_of(held_.begin(), held_.end(),
                     [&address](const auto& entry) { return entry.second.replaces == address; });
}

void VerifierSubset::ReplaceLost(Time now) {
  for (auto it = held_.begin(); it != held_.end();) {
    const auto here = it++;
    const Held& held = here->second;
    if (!held.away_since.has_value()) continue;
    if (!held.refused && now - *held.away_since < options_.lost) continue;
    const SubsetReason reason = held.refused ? SubsetReason::kRefused : SubsetReason::kLost;
    // The end of a move needs no other one.
    if (held.replaces.empty() && !IsBeingReplaced(here->first)) {
      const std::string* const other = Candidate(now);
      if (other == nullptr) continue;
      Attach(*other, reason, now);
    }
    BackOff(here->first, now);
    if (reason == SubsetReason::kLost) memory_[here->first].lost = true;
    Leave(here, reason);
  }
}

void VerifierSubset::Fill(Time now) {
  while (held() < options_.size) {
    const std::string* const address = Candidate(now);
    if (address == nullptr) return;
    Attach(*address, SubsetReason::kFill, now);
  }
}

void VerifierSubset::VisitNext(Time now) {
  if (now < tick_) return;
  tick_ = now + Jittered(options_.rebalance);
  const int most_leaving = std::max(1, options_.size / 4);
  if (!visiting_.empty() || held() != options_.size || leaving() >= most_leaving) return;
  const std::string* const address = NextToVisit(now);
  if (address == nullptr) return;
  visiting_ = *address;
  changes_.push_back({.kind = SubsetChange::Kind::kVisit, .address = *address});
}

const std::string* VerifierSubset::NextToVisit(Time now) {
  const auto may_visit = [this, now](const std::string& address) {
    return !leaving_.contains(address) && MayTry(address, now);
  };
  if (std::exchange(visit_lost_, !visit_lost_)) {
    for (const auto& [address, memory] : memory_) {
      if (memory.lost && may_visit(address)) return &address;
    }
  }
  for (size_t i = 0; i < by_rank_.size(); ++i) {
    const std::string& address = (*addresses_)[by_rank_[visit_at_ % by_rank_.size()]];
    visit_at_ = (visit_at_ + 1) % by_rank_.size();
    if (may_visit(address)) return &address;
  }
  return nullptr;
}

void VerifierSubset::SetNext(Time now) {
  next_ = tick_;
  bool wants_more = held() < options_.size;
  for (const auto& [address, held] : held_) {
    if (!held.away_since.has_value()) continue;
    const Time due = held.refused ? now : *held.away_since + options_.lost;
    if (due > now) {
      next_ = std::min(next_, due);
    } else {
      wants_more = true;
    }
  }
  if (!wants_more) return;
  for (const auto& [address, memory] : memory_) {
    if (memory.not_before > now && !held_.contains(address)) {
      next_ = std::min(next_, memory.not_before);
    }
  }
}

int VerifierSubset::in_other_zone() const {
  return static_cast<int>(std::count_if(held_.begin(), held_.end(), [this](const auto& entry) {
    return !entry.second.away_since.has_value() && ZoneOf(entry.first) == Zone::kOther;
  }));
}

}  // namespace outrider
