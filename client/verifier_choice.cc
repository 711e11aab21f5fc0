#include "client/verifier_choice.h"

#include <algorithm>

#include "common/routing/page_hashes.h"

namespace outrider {

VerifierChoice::VerifierChoice(const std::vector<std::string>& names, RoutePolicy policy,
                               const Clock* clock)
    : policy_(policy), clock_(*clock), away_until_(names.size()), counts_(names.size()) {
  for (const std::string& name : names) router_.Add(name);
}

int VerifierChoice::Begin(std::string_view prompt, std::span<const int> asked) {
  std::vector<uint64_t> pages;
  if (policy_ == RoutePolicy::kPrefix) pages = TextPageHashes(prompt, kPageBytes, kMostPages);
  MutexLock lock(mu_);
  ReturnFromAway(asked);
  const int limit = router_.Limit();
  last_ = Choose(pages);
  router_.Begin(last_);
  Counts& counts = counts_[static_cast<size_t>(last_)];
  ++counts.requests;
  counts.most_in_flight = std::max(counts.most_in_flight, router_.in_flight(last_));
  most_above_bound_ = std::max(most_above_bound_, router_.in_flight(last_) - limit);
  return last_;
}

void VerifierChoice::End(int verifier, bool unavailable) {
  MutexLock lock(mu_);
  router_.End(verifier);
  if (!unavailable) return;
  router_.SetServing(verifier, false);
  away_until_[static_cast<size_t>(verifier)] = clock_.Now() + kAwayTime;
}

int VerifierChoice::Choose(std::span<const uint64_t> pages) {
  switch (policy_) {
    case RoutePolicy::kPrefix: return router_.Choose(pages);
    case RoutePolicy::kLeastLoaded: return ChooseLeastLoaded();
    case RoutePolicy::kRoundRobin: return ChooseNext();
  }
  return ChooseNext();
}

int VerifierChoice::ChooseNext() {
  int next = last_;
  do {
    next = (next + 1) % router_.verifiers();
  } while (!router_.is_serving(next));
  return next;
}

// Those with equally few take turns.
int VerifierChoice::ChooseLeastLoaded() {
  int least = -1;
  for (int i = 1; i <= router_.verifiers(); ++i) {
    const int v = (last_ + i) % router_.verifiers();
    if (!router_.is_serving(v)) continue;
    if (least < 0 || router_.in_flight(v) < router_.in_flight(least)) least = v;
  }
  return least;
}

void VerifierChoice::ReturnFromAway(std::span<const int> asked) {
  const Time now = clock_.Now();
  for (int v = 0; v < router_.verifiers(); ++v) {
    if (away_until_[static_cast<size_t>(v)] <= now) router_.SetServing(v, true);
  }
  for (const int v : asked) router_.SetServing(v, false);
  if (router_.serving() > 0) return;
  for (int v = 0; v < router_.verifiers(); ++v) {
    if (std::find(asked.begin(), asked.end(), v) == asked.end()) router_.SetServing(v, true);
  }
}

std::vector<VerifierChoice::Counts> VerifierChoice::counts() const {
  MutexLock lock(mu_);
  return counts_;
}

int VerifierChoice::most_above_bound() const {
  MutexLock lock(mu_);
  return most_above_bound_;
}

}  // namespace outrider
