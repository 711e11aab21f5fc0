// How much memory operator new has allocated in this program. A test program that uses this has its
// own operator new, which counts; with the address sanitizer, which also has one, nothing is
// counted.
#pragma once

#include <cstdint>

namespace outrider::testing {

// One at a time. Thread: the memory of all threads counts.
class AllocationWatch {
 public:
#ifdef __SANITIZE_ADDRESS__
  static constexpr bool kCounts = false;
#else
  static constexpr bool kCounts = true;
#endif

  AllocationWatch();
  // Bytes given out and not given back since the watch began, and the most that these ever were.
  int64_t held() const;
  int64_t peak() const;

 private:
  const int64_t before_;
};

}  // namespace outrider::testing
