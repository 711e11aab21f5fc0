#include "common/routing/hash_ring.h"

#include <algorithm>

#include "common/base/fnv_hash.h"

namespace outrider {

uint64_t SpreadBits(uint64_t value) {
  value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCDu;
  value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53u;
  return value ^ (value >> 33);
}

void HashRing::Insert(int member, const std::string& name) {
  const auto before = [](const Point& a, const Point& b) { return a.position < b.position; };
  const size_t old = ring_.size();
  for (int i = 0; i < points_; ++i) {
    FnvHash hash;
    hash.Add(name);
    hash.Add(static_cast<uint64_t>(i));
    ring_.push_back({SpreadBits(hash.value()), member});
  }
  const auto middle = ring_.begin() + static_cast<std::ptrdiff_t>(old);
  std::sort(middle, ring_.end(), before);
  std::inplace_merge(ring_.begin(), middle, ring_.end(), before);
}

void HashRing::Erase(int member) {
  std::erase_if(ring_, [member](const Point& point) { return point.member == member; });
}

size_t HashRing::Find(uint64_t position) const {
  const auto found =
      std::lower_bound(ring_.begin(), ring_.end(), position,
                       [](const Point& point, uint64_t wanted) { return point.position < wanted; });
  return found == ring_.end() ? 0 : static_cast<size_t>(found - ring_.begin());
}

}  // namespace outrider
