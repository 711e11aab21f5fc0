#include "verifier/http/body_budget.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// Below kFloodBytes the allocator may keep the memory for the next requests.
constexpr size_t kFloodBytes = 32 << 20;
constexpr size_t kFloodIsOverBytes = 4 << 20;

}  // namespace

BodyBudget::Full BodyBudget::Take(const std::string& peer, size_t bytes) {
  MutexLock lock(mu_);
  if (bytes > limits_.total - held_) return Full::kServer;
  size_t& peer_bytes = by_peer_[peer];
  if (bytes > limits_.per_peer - peer_bytes) {
    if (peer_bytes == 0) by_peer_.erase(peer);
    return Full::kPeer;
  }
  peer_bytes += bytes;
  held_ += bytes;
  peak_ = std::max(peak_, held_);
  return Full::kNo;
}

void BodyBudget::Return(const std::string& peer, size_t bytes) {
  bool flood_is_over = false;
  {
    MutexLock lock(mu_);
    const auto it = by_peer_.find(peer);
    if (it == by_peer_.end()) return;
    it->second -= bytes;
    if (it->second == 0) by_peer_.erase(it);
    held_ -= bytes;
    const Time now = std::chrono::steady_clock::now();
    flood_is_over = peak_ >= kFloodBytes && held_ <= kFloodIsOverBytes && now >= next_trim_;
    if (flood_is_over) {
      peak_ = held_;
      next_trim_ = now + limits_.trim_pause;
      ++trims_;
    }
  }
  if (flood_is_over) malloc_trim(0);
}

size_t BodyBudget::held() const {
  MutexLock lock(mu_);
  return held_;
}

int BodyBudget::trims() const {
  MutexLock lock(mu_);
  return trims_;
}

BodyShare& BodyShare::operator=(BodyShare&& other) noexcept {
  if (this == &other) return *this;
  Clear();
  budget_ = std::move(other.budget_);
  peer_ = std::move(other.peer_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

BodyBudget::Full BodyShare::GrowTo(size_t bytes) {
  if (budget_ == nullptr || bytes <= bytes_) return BodyBudget::Full::kNo;
  const BodyBudget::Full full = budget_->Take(peer_, bytes - bytes_);
  if (full == BodyBudget::Full::kNo) bytes_ = bytes;
  return full;
}

void BodyShare::Clear() {
  if (bytes_ > 0) budget_->Return(peer_, bytes_);
  bytes_ = 0;
}

}  // namespace outrider
