#include "tests/support/cuda_emulation/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstddef>

#include "common/base/check.h"

#if defined(OUTRIDER_ADDRESS_FIBERS)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(OUTRIDER_THREAD_FIBERS)
#include <sanitizer/tsan_interface.h>
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

class FiberStack {
 public:
  explicit FiberStack(void (*function)()) : function_(function) {
    static thread_local size_t made = 0;
    void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    OUTRIDER_CHECK(memory != MAP_FAILED);
    stack_ = memory;
    OUTRIDER_CHECK(mprotect(stack_, kGuardBytes, PROT_NONE) == 0);
    OUTRIDER_CHECK(getcontext(&context_) == 0);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = kStackBytes - made++ % kStaggers * kStaggerBytes;
    makecontext(&context_, reinterpret_cast<void (*)()>(&Main), 0);
#if defined(OUTRIDER_THREAD_FIBERS)
    sanitizer_fiber_ = __tsan_create_fiber(0);
#endif
  }
  ~FiberStack() {
#if defined(OUTRIDER_THREAD_FIBERS)
    __tsan_destroy_fiber(sanitizer_fiber_);
#endif
#if defined(OUTRIDER_ADDRESS_FIBERS)
    __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
    munmap(stack_, kStackBytes);
  }

  bool Enter();
  static void Leave(bool ended);

 private:
  static void Main();
  void SwitchIn();

  void (*const function_)();
  void* stack_ = nullptr;
  ucontext_t context_;
  bool ended_ = false;
  bool started_ = false;
  void* inside_[5];
  void* outside_[5];
  // Each is used by one of the sanitizers.
  [[maybe_unused]] void* sanitizer_fiber_ = nullptr;
  [[maybe_unused]] void* sanitizer_outside_ = nullptr;
  [[maybe_unused]] const void* outside_stack_ = nullptr;
  [[maybe_unused]] size_t outside_bytes_ = 0;
};

namespace {
thread_local FiberStack* running = nullptr;

// The compiler requires its jump to be in another function than the target.
[[noreturn, gnu::noinline]] void JumpTo(void** place) { __builtin_longjmp(place, 1); }
}  // namespace

// swapcontext makes a system call each time. The compiler's own jumps between stacks that have been
// started save three registers, and the compiler saves the others that are in use.
void FiberStack::SwitchIn() {
#if defined(OUTRIDER_ADDRESS_FIBERS)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_, kStackBytes);
#elif defined(OUTRIDER_THREAD_FIBERS)
  sanitizer_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(sanitizer_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  if (__builtin_setjmp(outside_) == 0) {
    if (started_) JumpTo(inside_);
    started_ = true;
    setcontext(&context_);
  }
#if defined(OUTRIDER_ADDRESS_FIBERS)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void FiberStack::Leave(bool ended) {
  FiberStack* self = running;
  self->ended_ = ended;
#if defined(OUTRIDER_ADDRESS_FIBERS)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, self->outside_stack_, self->outside_bytes_);
#elif defined(OUTRIDER_THREAD_FIBERS)
  __tsan_switch_to_fiber(self->sanitizer_outside_, __tsan_switch_to_fiber_no_sync);
#endif
  if (__builtin_setjmp(self->inside_) == 0) JumpTo(self->outside_);
#if defined(OUTRIDER_ADDRESS_FIBERS)
  __sanitizer_finish_switch_fiber(fake_stack, &self->outside_stack_, &self->outside_bytes_);
#endif
}

void FiberStack::Main() {
#if defined(OUTRIDER_ADDRESS_FIBERS)
  __sanitizer_finish_switch_fiber(nullptr, &running->outside_stack_, &running->outside_bytes_);
#endif
  for (;;) {
    running->function_();
    Leave(/*ended=*/true);
  }
}

bool FiberStack::Enter() {
  ended_ = false;
  running = this;
  SwitchIn();
  return ended_;
}

void DeleteFiber::operator()(FiberStack* fiber) const { delete fiber; }
Fiber MakeFiber(void (*function)()) { return Fiber(new FiberStack(function)); }
bool EnterFiber(Fiber& fiber) { return fiber->Enter(); }
void LeaveFiber() { FiberStack::Leave(/*ended=*/false); }

#if defined(OUTRIDER_THREAD_FIBERS)
void ReleaseOrder(void* place) { __tsan_release(place); }
void AcquireOrder(void* place) { __tsan_acquire(place); }
#else
void ReleaseOrder(void*) {}
void AcquireOrder(void*) {}
#endif

}  // namespace outrider::cuda_emulation
