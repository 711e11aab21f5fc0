#include "verifier/propose/index_table.h"

#include <algorithm>
#include <random>
#include <utility>

namespace outrider {
namespace {

uint64_t DrawSalt() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

uint64_t HashSalt() {
  static const uint64_t salt = DrawSalt();
  return salt;
}

void IndexTable::Clear() {
  std::fill(slots_.begin(), slots_.end(), Slot());
  used_ = 0;
}

void IndexTable::Grow() {
  std::vector<Slot> old(std::max<size_t>(16, 2 * slots_.size()));
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.index < 0) continue;
    slots_[Seek(slot.tag, [](int32_t) { return false; })] = slot;  // keys are distinct
  }
}

}  // namespace outrider
