#include "common/routing/prefix_digest.h"

#include <algorithm>

namespace outrider {

PrefixDigest::PrefixDigest(int slots) : slots_(static_cast<size_t>(slots)) {
  for (int slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
}

int PrefixDigest::Add(uint64_t hash) {
  pages_.fetch_add(1, std::memory_order_relaxed);
  if (free_.empty()) return kNoSlot;
  const int slot = free_.back();
  free_.pop_back();
  slots_[static_cast<size_t>(slot)].store(hash, std::memory_order_relaxed);
  return slot;
}

void PrefixDigest::Remove(int slot) {
  pages_.fetch_sub(1, std::memory_order_relaxed);
  if (slot == kNoSlot) return;
  slots_[static_cast<size_t>(slot)].store(kEmpty, std::memory_order_relaxed);
  free_.push_back(slot);
}

std::vector<uint64_t> PrefixDigest::Hashes() const {
  std::vector<uint64_t> hashes;
  for (const std::atomic<uint64_t>& slot : slots_) {
    const uint64_t hash = slot.load(std::memory_order_relaxed);
    if (hash != kEmpty) hashes.push_back(hash);
  }
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

}  // namespace outrider
