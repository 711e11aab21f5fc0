// The host implementation of common/backend/cuda/kernels/tensor_core.h. Fragments have the same
// layout as on a device. A missing lane fails the launch, as in other warp operations.
#pragma once

#include <cstdint>
#include <cstring>

namespace outrider::cuda_emulation {

// Sums over k from 0 up, in f32. `widen` returns an element's value.
void MultiplyAdd(const unsigned (&a)[4], unsigned b0, unsigned b1, float (*widen)(uint16_t),
                 float (&c)[4]);

// Fails the launch where a device would fail.
void CheckAligned(const void* address, const char* operation);

// Each lane's share of the four matrices, from every lane's row of eight elements.
void ShareMatrices(const unsigned (&row)[4], bool transposed, unsigned (&out)[4]);

// The accesses to shared memory are made here, in the kernel's file, so that the sanitizers see
// them.
inline void LoadMatrices(const void* row, bool transposed, unsigned (&out)[4]) {
  CheckAligned(row, "ldmatrix");
  unsigned words[4];
  std::memcpy(words, row, sizeof(words));
  ShareMatrices(words, transposed, out);
}

// 16 bytes; if `from` is nullptr, zeros.
struct AsyncCopy {
  void* to;
  const void* from;
};
void BeginCopy(const AsyncCopy& copy);
void CloseCopies();
// Removes the thread's oldest copy that is not in its last `pending` groups. Returns false if there
// is none.
bool TakeCopy(int pending, AsyncCopy* copy);

// Copies happen only here, so that reading too early finds the old contents.
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
