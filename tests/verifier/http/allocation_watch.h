// How much memory operator new has given out in this program: the test program that this is
// compiled into has its own operator new, which counts.
#pragma once

#include <cstdint>

namespace outrider::testing {

// One at a time. Thread: the memory of all threads counts.
class AllocationWatch {
 public:
  AllocationWatch();
  // Bytes given out and not given back since the watch began, and the most that these ever were.
  int64_t held() const;
  int64_t peak() const;

 private:
  const int64_t before_;
};

}  // namespace outrider::testing
