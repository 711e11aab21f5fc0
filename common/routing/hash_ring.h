// Consistent hashing (Karger et al. 1997): each member has a number of points on a ring of 64-bit
// positions, which depend on its name alone, and a position belongs to the member of the next
// point. When a member comes, positions move to it and between no others; when one leaves, only its
// own move.
//
// Thread: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace outrider {

// A bijection that spreads nearby values: the finalizer of MurmurHash3 (Appleby 2008).
uint64_t SpreadBits(uint64_t value);

class HashRing {
 public:
  // `points`: of each member. The members' parts of all positions then deviate from equal ones by
  // some 1 / sqrt(points) of themselves.
  explicit HashRing(int points) : points_(points) {}

  // O(points on the ring), as is Erase. REQUIRES: the member is not on the ring.
  void Insert(int member, const std::string& name);
  void Erase(int member);

  // Where the points begin at or after `position`, O(log). REQUIRES: a member is on the ring, here
  // and below.
  size_t Find(uint64_t position) const;
  // The next point's index, around the ring.
  size_t Next(size_t index) const { return index + 1 == ring_.size() ? 0 : index + 1; }
  int MemberAt(size_t index) const { return ring_[index].member; }

 private:
  struct Point {
    uint64_t position = 0;
    int member = 0;
  };
  const int points_;
  std::vector<Point> ring_;  // ascending
};

}  // namespace outrider
