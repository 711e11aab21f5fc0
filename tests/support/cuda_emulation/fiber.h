// Separate stacks on one thread of the machine, for the emulator. The sanitizers are informed.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(OUTRIDER_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#elif defined(OUTRIDER_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace outrider::cuda_emulation {

// Where a suspended stack goes on, and what the sanitizers must know of it.
struct Stack {
#if defined(__x86_64__)
  void* instruction = nullptr;
  void* pointer = nullptr;
  void* frame = nullptr;
#else
  ucontext_t context;
#endif
  const void* bottom = nullptr;  // the lowest address
  size_t bytes = 0;
  void* thread_fiber = nullptr;  // the thread sanitizer's
};

// The stack of the thread of the machine. Call it outside of fibers.
Stack OutsideStack();

// A stack on which `function` begins when it is first switched to. `function` calls BeginFiber
// first and never returns.
class Fiber {
 public:
  explicit Fiber(void (*function)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  Stack stack;

 private:
  void* memory_;
};

inline void BeginFiber() {
#if defined(OUTRIDER_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

// Suspends the running stack as `from` and resumes `to`. Returns when something switches to `from`.
// swapcontext makes a system call each time. This saves three registers, and the compiler saves
// the others that are in use. It is inlined because a processor that predicts where calls return
// to is wrong about every return to a caller on another stack than the call's.
[[gnu::always_inline]] inline void SwitchStack(Stack& from, Stack& to) {
#if defined(OUTRIDER_ADDRESS_SANITIZER)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, to.bottom, to.bytes);
#elif defined(OUTRIDER_THREAD_SANITIZER)
  __tsan_switch_to_fiber(to.thread_fiber, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__)
  Stack* suspended = &from;
  Stack* resumed = &to;
  asm volatile(
      "leaq 1f(%%rip), %%rax\n\t"
      "movq %%rax, 0(%%rdi)\n\t"
      "movq %%rsp, 8(%%rdi)\n\t"
      "movq %%rbp, 16(%%rdi)\n\t"
      "movq 8(%%rsi), %%rsp\n\t"
      "movq 16(%%rsi), %%rbp\n\t"
      "jmpq *0(%%rsi)\n"
      "1:"
      : "+D"(suspended), "+S"(resumed)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
        "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
        "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
#else
  swapcontext(&from.context, &to.context);
#endif
#if defined(OUTRIDER_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

// For the thread sanitizer, which takes fibers for unordered threads: what comes before a Release
// of an address happens before what follows a later Acquire of it.
#if defined(OUTRIDER_THREAD_SANITIZER)
inline void ReleaseOrder(void* place) { __tsan_release(place); }
inline void AcquireOrder(void* place) { __tsan_acquire(place); }
#else
inline void ReleaseOrder(void*) {}
inline void AcquireOrder(void*) {}
#endif

}  // namespace outrider::cuda_emulation
