#include "common/routing/prefix_router.h"

#include <algorithm>
#include <cmath>

#include "common/routing/page_hashes.h"

namespace outrider {
namespace {

// Requests in flight at a verifier, over the mean of all: above 1. The paper's c = 1 + epsilon.
constexpr double kBound = 1.25;
// See HashRing: unloaded verifiers' parts of the keys deviate by some 9 %.
constexpr int kRingPoints = 128;

// Requests of a window of shares, for each verifier and at least. Prefixes with a fair share,
// 1 / verifiers, are then two to three standard deviations below what counts as shared,
// bound / verifiers. Smaller windows follow changes sooner, but more prefixes pass for shared by
// chance.
constexpr int64_t kWindowPerVerifier = 64;  // requests
constexpr int64_t kLeastWindow = 256;       // requests
// Requests for each verifier that shares are taken of at least, or the first requests of all, with
// shares near 1, would make every prefix look shared.
constexpr int64_t kLeastPerVerifier = 8;

// Positions of a key's list before the search goes on around the ring, which ends for sure. With
// 80 % of the verifiers full, one request of a million gets so far.
constexpr uint64_t kJumps = 64;
constexpr uint64_t kJump = 0x9E3779B97F4A7C15u;  // any odd number

}  // namespace

PrefixRouter::PrefixRouter() : ring_(kRingPoints) {}

int PrefixRouter::Add(const std::string& name) {
  verifiers_.push_back({.name = name});
  const int added = verifiers() - 1;
  SetServing(added, true);
  return added;
}

void PrefixRouter::SetServing(int verifier, bool serving) {
  Verifier& changed = At(verifier);
  if (changed.serving == serving) return;
  changed.serving = serving;
  if (serving) {
    ring_.Insert(verifier, changed.name);
    ++serving_;
    in_flight_ += changed.in_flight;
  } else {
    ring_.Erase(verifier);
    --serving_;
    in_flight_ -= changed.in_flight;
  }
}

void PrefixRouter::Begin(int verifier) {
  Verifier& with = At(verifier);
  ++with.in_flight;
  if (with.serving) ++in_flight_;
}

void PrefixRouter::End(int verifier) {
  Verifier& with = At(verifier);
  --with.in_flight;
  if (with.serving) --in_flight_;
}

int PrefixRouter::Limit() const {
  if (serving_ == 0) return 0;
  constexpr double kRounding = 1e-9;
  const double mean = static_cast<double>(in_flight_ + 1) / serving_;
  return static_cast<int>(std::ceil(kBound * mean - kRounding));
}

size_t PrefixRouter::DecidingPage(std::span<const uint64_t> pages) const {
  const auto requests =
      static_cast<double>(std::max(shares_.requests(), kLeastPerVerifier * serving_));
  const double most = kBound * requests / serving_;
  size_t page = 0;
  while (page + 1 < pages.size() && static_cast<double>(shares_.CountOf(pages[page])) > most) {
    ++page;
  }
  return page;
}

int PrefixRouter::Choose(std::span<const uint64_t> pages) {
  if (serving_ == 0) return -1;
  shares_.Count(pages, std::max(kLeastWindow, kWindowPerVerifier * serving_));
  return FirstBelow(Limit(), pages.empty() ? kNoPages : pages[DecidingPage(pages)]);
}

int PrefixRouter::FirstBelow(int limit, uint64_t key) const {
  size_t point = 0;
  for (uint64_t jump = 0; jump < kJumps; ++jump) {
    point = ring_.Find(SpreadBits(key + jump * kJump));
    if (in_flight(ring_.MemberAt(point)) < limit) return ring_.MemberAt(point);
  }
  // Not all can be at the limit, which is above their mean.
  while (in_flight(ring_.MemberAt(point)) >= limit) point = ring_.Next(point);
  return ring_.MemberAt(point);
}

}  // namespace outrider
