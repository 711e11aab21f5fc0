#include "tests/support/cuda_emulation/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>

#include "common/base/check.h"

#if defined(OUTRIDER_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace outrider::cuda_emulation {
namespace {

constexpr size_t kStackBytes = 256 << 10;  // resident only as touched
constexpr size_t kGuardBytes = 4096;
// The fibers of a warp run in turn. If their stacks began at the same page offset, they would
// compete for the few cache lines of that offset.
constexpr size_t kStaggerBytes = 17 * 64;
constexpr size_t kStaggers = 64;

}  // namespace

Stack OutsideStack() {
  Stack outside;
#if defined(OUTRIDER_ADDRESS_SANITIZER)
  pthread_attr_t attributes;
  void* bottom = nullptr;
  OUTRIDER_CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
  OUTRIDER_CHECK(pthread_attr_getstack(&attributes, &bottom, &outside.bytes) == 0);
  pthread_attr_destroy(&attributes);
  outside.bottom = bottom;
#elif defined(OUTRIDER_THREAD_SANITIZER)
  outside.thread_fiber = __tsan_get_current_fiber();
#endif
  return outside;
}

Fiber::Fiber(void (*function)()) {
  static thread_local size_t made = 0;
  memory_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  OUTRIDER_CHECK(memory_ != MAP_FAILED);
  OUTRIDER_CHECK(mprotect(memory_, kGuardBytes, PROT_NONE) == 0);
  stack.bottom = memory_;
  stack.bytes = kStackBytes - made++ % kStaggers * kStaggerBytes;
#if defined(__x86_64__)
  stack.instruction = reinterpret_cast<void*>(function);
  // As if a call had put down a return address below a multiple of 16; there is none.
  auto* const top = static_cast<unsigned char*>(memory_) + stack.bytes / 16 * 16;
  stack.pointer = top - sizeof(void*);
#else
  OUTRIDER_CHECK(getcontext(&stack.context) == 0);
  stack.context.uc_stack.ss_sp = memory_;
  stack.context.uc_stack.ss_size = stack.bytes;
  makecontext(&stack.context, function, 0);
#endif
#if defined(OUTRIDER_THREAD_SANITIZER)
  stack.thread_fiber = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(OUTRIDER_THREAD_SANITIZER)
  __tsan_destroy_fiber(stack.thread_fiber);
#elif defined(OUTRIDER_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(memory_, kStackBytes);
#endif
  munmap(memory_, kStackBytes);
}

}  // namespace outrider::cuda_emulation
