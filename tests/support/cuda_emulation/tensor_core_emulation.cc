#include "tests/support/cuda_emulation/tensor_core_emulation.h"

#include <cstdlib>

#include "common/base/check.h"
#include "tests/support/cuda_emulation/warp_exchange.h"

namespace outrider::cuda_emulation {
namespace {

constexpr char kMultiply[] = "mma.sync", kLoad[] = "ldmatrix.sync";

// Other lanes read a lane's words until they reach their next operation: two buffers alternate.
struct Words {
  unsigned words[2][6];
  unsigned turn;
};
thread_local Words lanes[kMaxBlockThreads];

class Exchanged {
 public:
  Exchanged(const char* operation, const unsigned* words, int count)
      : exchange_(operation, reinterpret_cast<uint64_t>(PutDown(words, count))) {}
  const unsigned* Of(unsigned lane) const {
    return reinterpret_cast<const unsigned*>(exchange_.Of(lane));
  }

 private:
  static const unsigned* PutDown(const unsigned* words, int count) {
    Words& own = lanes[CurrentThread()];
    own.turn ^= 1;
    for (int i = 0; i < count; ++i) own.words[own.turn][i] = words[i];
    return own.words[own.turn];
  }
  WarpExchange exchange_;
};

uint16_t Half(unsigned word, unsigned upper) {
  return static_cast<uint16_t>(upper != 0 ? word >> 16 : word);
}

// One thread's copies that have started and not been waited for, the oldest first. Plain memory,
// like everything that kernels reach (emulator.cc).
struct Pending {
  ~Pending() {
    std::free(copies);
    std::free(group_of);
  }
  AsyncCopy* copies = nullptr;
  int* group_of = nullptr;
  int capacity = 0, begin = 0, end = 0;
  int groups = 0;  // closed so far
  uint64_t block = 0;
};
thread_local Pending pending_copies[kMaxBlockThreads];

void MakeRoom(Pending* pending) {
  const auto held = static_cast<size_t>(pending->end - pending->begin);
  if (pending->begin > 0) {
    std::memmove(pending->copies, pending->copies + pending->begin, held * sizeof(AsyncCopy));
    std::memmove(pending->group_of, pending->group_of + pending->begin, held * sizeof(int));
    pending->begin = 0;
    pending->end = static_cast<int>(held);
    return;
  }
  pending->capacity = 2 * pending->capacity + 64;
  const auto room = static_cast<size_t>(pending->capacity);
  pending->copies =
      static_cast<AsyncCopy*>(std::realloc(pending->copies, room * sizeof(AsyncCopy)));
  pending->group_of = static_cast<int*>(std::realloc(pending->group_of, room * sizeof(int)));
  OUTRIDER_CHECK(pending->copies != nullptr && pending->group_of != nullptr);
}

Pending& OfThread() {
  Pending& pending = pending_copies[CurrentThread()];
  if (pending.block != CurrentBlock()) {
    pending.begin = pending.end = pending.groups = 0;
    pending.block = CurrentBlock();
  }
  return pending;
}

}  // namespace

void MultiplyAdd(const unsigned (&a)[4], unsigned b0, unsigned b1, float (*widen)(uint16_t),
                 float (&c)[4]) {
  const unsigned words[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const Exchanged exchanged(kMultiply, words, 6);
  const unsigned lane = CurrentThread() % 32;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = i / 2, column = lane % 4 * 2 + i % 2;
    float sum = c[i];
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned of = k % 8 / 2, upper = k / 8;
      const unsigned left = exchanged.Of(lane / 4 * 4 + of)[row + 2 * upper];
      const unsigned right = exchanged.Of(column * 4 + of)[4 + upper];
      sum += widen(Half(left, k % 2)) * widen(Half(right, k % 2));
    }
    c[i] = sum;
  }
}

void ShareMatrices(const unsigned (&row)[4], bool transposed, unsigned (&out)[4]) {
  const Exchanged exchanged(kLoad, row, 4);
  const unsigned lane = CurrentThread() % 32, g = lane / 4, t = lane % 4;
  const auto element = [&](unsigned matrix, unsigned i, unsigned j) {
    return Half(exchanged.Of(matrix * 8 + i)[j / 2], j % 2);
  };
  for (unsigned m = 0; m < 4; ++m) {
    const uint16_t low = transposed ? element(m, 2 * t, g) : element(m, g, 2 * t);
    const uint16_t high = transposed ? element(m, 2 * t + 1, g) : element(m, g, 2 * t + 1);
    out[m] = low | static_cast<unsigned>(high) << 16;
  }
}

void BeginCopy(const AsyncCopy& copy) {
  Pending& pending = OfThread();
  if (pending.end == pending.capacity) MakeRoom(&pending);
  pending.copies[pending.end] = copy;
  pending.group_of[pending.end++] = pending.groups;
}

void CloseCopies() { ++OfThread().groups; }

bool TakeCopy(int pending_groups, AsyncCopy* copy) {
  Pending& pending = OfThread();
  if (pending.begin == pending.end) return false;
  if (pending.group_of[pending.begin] >= pending.groups - pending_groups) return false;
  *copy = pending.copies[pending.begin++];
  return true;
}

}  // namespace outrider::cuda_emulation
