// How many files, including connections, the process may have open.
//
// Thread: main, before others start.
#pragma once

#include <cstdint>

namespace outrider {

// Raises the soft limit, often 1,024, to the hard one. No effect if the system refuses.
void RaiseFileLimit();

// How many may be open now.
int64_t FileLimit();

}  // namespace outrider
