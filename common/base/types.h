// Words that every folder uses.
#pragma once

#include <cstdint>

namespace outrider {

// An index into the vocabulary. Signed, so that -1 can say "none"; uint32 on the wire.
using TokenId = int32_t;

}  // namespace outrider
