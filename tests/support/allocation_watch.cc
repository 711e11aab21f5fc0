#include "tests/support/allocation_watch.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

// Bytes allocated by operator new and not yet freed, and their maximum.
std::atomic<int64_t> live = 0, most = 0;

[[maybe_unused]] void Count(int64_t bytes) {
  const int64_t now = live += bytes;
  if (now > most) most = now;
}

}  // namespace

#ifndef OUTRIDER_ADDRESS_SANITIZER
void* operator new(size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  Count(static_cast<int64_t>(malloc_usable_size(memory)));
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) Count(-static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}
void operator delete(void* memory, size_t /*size*/) noexcept { operator delete(memory); }
#endif

namespace outrider::testing {

AllocationWatch::AllocationWatch() : before_(live) { most = before_; }
int64_t AllocationWatch::held() const { return live - before_; }
int64_t AllocationWatch::peak() const { return most - before_; }

}  // namespace outrider::testing
