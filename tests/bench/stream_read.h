// The reference of the kernel benchmarks: reading memory once, in order, as fast as one core can.
#pragma once

#include <cstddef>

namespace outrider {

// The sum of all of [data, data + bytes), 64-byte aligned, as floats; returned so that the reads
// are not optimised away.
float StreamRead(const char* data, size_t bytes);

}  // namespace outrider
