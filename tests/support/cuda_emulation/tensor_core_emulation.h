// What common/backend/cuda/kernels/tensor_core.h is made of on the host. Fragments are laid out as
// on a device. A missing lane fails the launch, as with other operations of a warp.
#pragma once

#include <cstdint>
#include <cstring>

namespace outrider::cuda_emulation {

// Sums over k from 0 up, in f32. `widen` gives an element's value.
void MultiplyAdd(const unsigned (&a)[4], unsigned b0, unsigned b1, float (*widen)(uint16_t),
                 float (&c)[4]);

// Fails the launch where a device would.
void CheckAligned(const void* address, const char* operation);

// From each lane's row of eight elements, every lane's share of the four matrices.
void ShareMatrices(const unsigned (&row)[4], bool transposed, unsigned (&out)[4]);

// The sanitizers see the accesses to shared memory: they are made here, in the kernel's file.
inline void LoadMatrices(const void* row, bool transposed, unsigned (&out)[4]) {
  CheckAligned(row, "ldmatrix");
  unsigned words[4];
  std::memcpy(words, row, sizeof(words));
  ShareMatrices(words, transposed, out);
}

// 16 bytes; from nullptr: zeros.
struct AsyncCopy {
  void* to;
  const void* from;
};
void BeginCopy(const AsyncCopy& copy);
void CloseCopies();
// The thread's oldest copy that is not in its last `pending` groups. False: there is none.
bool TakeCopy(int pending, AsyncCopy* copy);

// Nothing is copied before: what reads too early finds what was there.
inline void WaitForCopies(int pending) {
  AsyncCopy copy;
  while (TakeCopy(pending, &copy)) {
    if (copy.from != nullptr) {
      std::memcpy(copy.to, copy.from, 16);
    } else {
      std::memset(copy.to, 0, 16);
    }
  }
}

}  // namespace outrider::cuda_emulation
