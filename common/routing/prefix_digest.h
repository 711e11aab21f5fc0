// The hashes of the prefixes that a cache holds (page_hashes.h), for others to look at: one thread
// adds and removes them, and any thread may list them, without a lock and without either waiting
// for the other. A list that is made while hashes change has some of these and lacks others.
//
// Its size is fixed. Hashes for which there is no slot are counted and not listed.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace outrider {

class PrefixDigest {
 public:
  static constexpr int kNoSlot = -1;

  // 12 bytes a slot.
  explicit PrefixDigest(int slots);

  // Thread: the one that writes. Returns the hash's slot, or kNoSlot: full.
  int Add(uint64_t hash);
  // `slot`: what Add returned.
  void Remove(int slot);

  // Thread: any. All pages, listed or not.
  int64_t pages() const { return pages_.load(std::memory_order_relaxed); }
  // The hashes in their slots, ascending.
  std::vector<uint64_t> Hashes() const;

 private:
  static constexpr uint64_t kEmpty = 0;  // and a hash with this value is not listed

  std::vector<std::atomic<uint64_t>> slots_;
  std::vector<int> free_;  // of the thread that writes
  std::atomic<int64_t> pages_ = 0;
};

}  // namespace outrider
