// What the emulator's other files need of a running block to add operations of a warp or a thread.
#pragma once

#include <cstdint>

namespace outrider::cuda_emulation {

constexpr unsigned kMaxBlockThreads = 1024;

unsigned CurrentThread();  // of the block
uint64_t CurrentBlock();   // another number for every block that runs on this thread of the machine

// Every lane of the current thread's warp puts `bits` down and waits for the others. The launch
// fails when one of them is at another operation, compared by its address, or has ended.
class WarpExchange {
 public:
  WarpExchange(const char* operation, uint64_t bits);
  // What a lane put down; until this thread's next but one warp operation.
  uint64_t Of(unsigned lane) const;

 private:
  unsigned parity_;
};

}  // namespace outrider::cuda_emulation
