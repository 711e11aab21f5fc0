// The access to a running block that the emulator's other files need for operations of a warp or a
// thread.
#pragma once

#include <cstdint>

namespace outrider::cuda_emulation {

constexpr unsigned kMaxBlockThreads = 1024;

unsigned CurrentThread();  // of the block
uint64_t CurrentBlock();   // different for every block that runs on this thread of the machine

// Every lane of the current thread's warp deposits `bits` and waits for the others. The launch
// fails when one of them is at another operation (compared by address) or has exited.
class WarpExchange {
 public:
  WarpExchange(const char* operation, uint64_t bits);
  // The bits that a lane deposited; valid until this thread's next but one warp operation.
  uint64_t Of(unsigned lane) const;

 private:
  unsigned parity_;
};

}  // namespace outrider::cuda_emulation
