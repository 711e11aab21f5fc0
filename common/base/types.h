// Words that every folder uses.
#pragma once

#include <cstdint>

namespace outrider {

// An index into the vocabulary. Signed, so that -1 can say "none"; uint32 on the wire.
using TokenId = int32_t;
inline constexpr TokenId kMaxVocabulary = 1 << 20;  // ids, and logits of a row, at most

// A token's keys and values of all layers move from one slot of the paged cache to another.
struct SlotCopy {
  int32_t from = 0;
  int32_t to = 0;
  bool operator==(const SlotCopy&) const = default;
};

}  // namespace outrider
