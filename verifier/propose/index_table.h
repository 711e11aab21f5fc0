// A hash table of indexes into the caller's array, which holds the keys: 8 bytes a slot, open
// addressing, at most two thirds full. Entries are replaced, never removed.
//
// Thread: one at a time, also for reading (probes are counted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/mix_bits.h"

namespace outrider {

// Start of a keyed hash, drawn once per process, so that nobody can write a prompt whose n-grams
// all fall into one slot. It only affects time, never results.
uint64_t HashSalt();
inline uint64_t HashStep(uint64_t hash, uint64_t word) { return SplitMix(hash ^ word); }

class IndexTable {
 public:
  // The index under `hash` for which equal(index) is true; -1 if there is none.
  template <class Equal>
  int32_t Find(uint64_t hash, const Equal& equal) const {
    return slots_.empty() ? -1 : slots_[Seek(Tag(hash), equal)].index;
  }
  // Stores `index` in place of the one that Find returns, and returns that one.
  template <class Equal>
  int32_t Put(uint64_t hash, int32_t index, const Equal& equal) {
    if (3 * (used_ + 1) > 2 * slots_.size()) Grow();
    Slot& slot = slots_[Seek(Tag(hash), equal)];
    const int32_t before = slot.index;
    if (before < 0) ++used_;
    slot = {Tag(hash), index};
    return before;
  }
  // Keeps the allocated memory.
  void Clear();

  size_t bytes() const { return slots_.capacity() * sizeof(Slot); }
  // Slots probed so far, a measure of time.
  int64_t probes() const { return probes_; }

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t index = -1;  // -1: empty
  };
  static uint32_t Tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  // The key's slot, or the empty slot where it would go.
  template <class Equal>
  size_t Seek(uint32_t tag, const Equal& equal) const {
    size_t i = tag & (slots_.size() - 1);
    for (++probes_; slots_[i].index >= 0; ++probes_) {
      if (slots_[i].tag == tag && equal(slots_[i].index)) break;
      i = (i + 1) & (slots_.size() - 1);
    }
    return i;
  }
  void Grow();

  std::vector<Slot> slots_;  // their number is a power of two
  size_t used_ = 0;
  mutable int64_t probes_ = 0;
};

}  // namespace outrider
