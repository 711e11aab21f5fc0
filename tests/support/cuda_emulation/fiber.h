// Stacks of their own on one thread of the machine, for the emulator: a fiber runs its function
// from entry to end, again and again, and may be left in the middle. The sanitizers are told.
#pragma once

#include <memory>

namespace outrider::cuda_emulation {

class FiberStack;
struct DeleteFiber {
  void operator()(FiberStack* fiber) const;
};
using Fiber = std::unique_ptr<FiberStack, DeleteFiber>;

Fiber MakeFiber(void (*function)());
// Runs the fiber from where it was left. True: its function has ended (and starts anew when entered
// again).
bool EnterFiber(Fiber& fiber);
// Called inside of a fiber: back to whoever entered it.
void LeaveFiber();

// For the thread sanitizer, which takes fibers for threads that nothing orders: what stands before
// a Release of a place happens before what stands behind a later Acquire of it.
void ReleaseOrder(void* place);
void AcquireOrder(void* place);

}  // namespace outrider::cuda_emulation
