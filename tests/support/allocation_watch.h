// Measures how much memory operator new has allocated in this program. A test program that uses
// this gets its own operator new, which counts; the address sanitizer has one, too, so nothing is
// counted with it.
#pragma once

#include <cstdint>

namespace outrider::testing {

// At most one at a time. Thread: counts the memory of all threads.
class AllocationWatch {
 public:
#ifdef OUTRIDER_ADDRESS_SANITIZER
  static constexpr bool kCounts = false;
#else
  static constexpr bool kCounts = true;
#endif

  AllocationWatch();
  // Bytes allocated since the watch began and not freed, and their maximum.
  int64_t held() const;
  int64_t peak() const;

 private:
  const int64_t before_;
};

}  // namespace outrider::testing
