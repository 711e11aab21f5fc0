// Separate stacks on one thread of the machine, for the emulator: a fiber runs its function from
// start to end, repeatedly, and may be suspended in between. The sanitizers are informed.
#pragma once

#include <memory>

namespace outrider::cuda_emulation {

class FiberStack;
struct DeleteFiber {
  void operator()(FiberStack* fiber) const;
};
using Fiber = std::unique_ptr<FiberStack, DeleteFiber>;

Fiber MakeFiber(void (*function)());
// Resumes the fiber. Returns true if its function has ended (and restarts when entered again).
bool EnterFiber(Fiber& fiber);
// Called inside a fiber: returns to the caller of EnterFiber.
void LeaveFiber();

// For the thread sanitizer, which takes fibers for unordered threads: what comes before a Release
// of an address happens before what follows a later Acquire of it.
void ReleaseOrder(void* place);
void AcquireOrder(void* place);

}  // namespace outrider::cuda_emulation
