// Types that every folder uses.
#pragma once

#include <cstdint>

namespace outrider {

// An index into the vocabulary. Signed, so that -1 can mean "none"; uint32 on the wire.
using TokenId = int32_t;
inline constexpr TokenId kMaxVocabulary = 1 << 20;  // bound of ids and of the logits in a row

// Moves a token's keys and values in all layers from one slot of the paged cache to another.
struct SlotCopy {
  int32_t from = 0;
  int32_t to = 0;
  bool operator==(const SlotCopy&) const = default;
};

}  // namespace outrider
