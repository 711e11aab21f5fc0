// How many files, connections among them, the process may have open.
//
// Thread: main, before others start.
#pragma once

#include <cstdint>

namespace outrider {

// Raises the soft limit, often 1,024, to the hard one. Without effect where the system refuses.
void RaiseFileLimit();

// How many may be open now.
int64_t FileLimit();

}  // namespace outrider
