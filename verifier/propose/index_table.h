// A hash table of indexes into an array of the caller's, which holds the keys: 8 bytes a slot, open
// addressing, at most two thirds full. Entries are replaced, never taken out.
//
// Thread: one at a time, also for reading (probes are counted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace outrider {

// Where a keyed hash starts: drawn once a process, so that nobody can write a prompt whose n-grams
// all fall into one slot. No result depends on it but the time.
uint64_t HashSalt();
// The finalizer of splitmix64 (Steele et al. 2014) over what came before and a word.
inline uint64_t HashStep(uint64_t hash, uint64_t word) {
  uint64_t x = (hash ^ word) + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

class IndexTable {
 public:
  // The index under `hash` of which equal(index) is true, -1 if there is none.
  template <class Equal>
  int32_t Find(uint64_t hash, const Equal& equal) const {
    return slots_.empty() ? -1 : slots_[Seek(Tag(hash), equal)].index;
  }
  // Stores `index` in place of the one that Find gives, which is returned.
  template <class Equal>
  int32_t Put(uint64_t hash, int32_t index, const Equal& equal) {
    if (3 * (used_ + 1) > 2 * slots_.size()) Grow();
    Slot& slot = slots_[Seek(Tag(hash), equal)];
    const int32_t before = slot.index;
    if (before < 0) ++used_;
    slot = {Tag(hash), index};
    return before;
  }
  // Keeps the memory.
  void Clear();

  size_t bytes() const { return slots_.capacity() * sizeof(Slot); }
  // Slots looked at so far: what the time goes by.
  int64_t probes() const { return probes_; }

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t index = -1;  // -1: empty
  };
  static uint32_t Tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  // Where the key is, or the empty slot where it would be.
  template <class Equal>
  size_t Seek(uint32_t tag, const Equal& equal) const {
    size_t at = tag & (slots_.size() - 1);
    for (++probes_; slots_[at].index >= 0; ++probes_) {
      if (slots_[at].tag == tag && equal(slots_[at].index)) break;
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }
  void Grow();

  std::vector<Slot> slots_;  // a power of two of them
  size_t used_ = 0;
  mutable int64_t probes_ = 0;
};

}  // namespace outrider
