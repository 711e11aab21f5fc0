#include "tests/support/cuda_emulation/emulator.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/fiber.h"
#include "tests/support/cuda_emulation/streams.h"
#include "tests/support/cuda_emulation/warp_exchange.h"

#if defined(OUTRIDER_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace outrider::cuda_emulation {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kMaxThreads = kMaxBlockThreads;

constexpr unsigned kMaxVariables = 16;  // of a kernel, in shared memory
constexpr size_t kVariableGap = 32;     // between them, which the address sanitizer guards

// Compared by address.
constexpr char kShuffle[] = "__shfl_sync", kBallot[] = "__ballot_sync", kSync[] = "__syncwarp";

enum class State { kReady, kAtBarrier, kAtWarp, kDone };

struct Lane {
  State state = State::kReady;
  uint3 index = {};
  uint64_t deposit[2] = {};  // of this and of the last warp operation
  unsigned parity = 0;
  bool awaited = false;
};

struct Warp {
  unsigned lanes = 0;  // threads of the block in this warp
  unsigned waiting = 0;
  // The operation at which the first of the waiting threads is.
  const char* operation = nullptr;
  unsigned first_waiter = 0;
};

// An error that a thread detected. Plain data: a failing thread never finishes, so it must not own
// anything.
struct Failure {
  bool any = false;
  unsigned thread = 0;
  const char* operation = nullptr;
  // Where another lane of its warp is; null: the operation does not involve a whole warp.
  const char* other = nullptr;
  unsigned other_thread = 0;
  bool is_address = false;  // an address that the operation does not accept
  bool not_awaited = false;
  size_t shared_bytes = 0;  // more shared memory than a block may have
};

// A variable of OUTRIDER_SHARED.
struct Variable {
  const void* identity = nullptr;
  size_t begin = 0;  // in `statics`
};

// At most one block at a time on each thread of the machine. The fibers touch only plain data:
// library code that they shared with instrumented sources would be visible to the thread sanitizer.
struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;
  Stack outside;
  std::unique_ptr<unsigned char[]> shared;
  size_t shared_bytes = 0;
  std::unique_ptr<unsigned char[]> statics;    // [kStaticsRoom]
  size_t statics_used = 0, statics_bytes = 0;  // with and without gaps
  Variable variables[kMaxVariables];
  unsigned variable_count = 0;
  size_t most_shared = 0;
  const std::function<void()>* body = nullptr;
  Lane lanes[kMaxThreads];
  Warp warps[kMaxThreads / kWarp];
  unsigned threads = 0;
  unsigned current = 0;
  unsigned at_barrier = 0;
  unsigned done = 0;
  uint64_t number = 0;  // among those that this thread of the machine ran
  dim3 shape;
  Failure failure;
  // Their addresses identify the block's begin and end, the barrier and each warp.
  char begin_order = 0;
  char end_order = 0;
  char barrier_order = 0;
  char warp_order[kMaxThreads / kWarp] = {};
};

constexpr size_t kStaticsRoom = kMaxShared + (kMaxVariables + 1) * kVariableGap;

thread_local Block block;
thread_local bool reverse_order = false;
thread_local std::string last_failure;
thread_local int64_t launches = 0;
thread_local int64_t overlaps = 0;

void SetThread(unsigned thread) {
  block.current = thread;
  threadIdx = block.lanes[thread].index;
}

// Suspends the calling thread. The next one continues if it can; if not, RunBlock finds another.
[[gnu::always_inline]] inline void Suspend() {
  const unsigned self = block.current;
  const unsigned next = reverse_order ? self - 1 : self + 1;
  if (next < block.threads && block.lanes[next].state == State::kReady) {
    SetThread(next);
    SwitchStack(block.fibers[self]->stack, block.fibers[next]->stack);
  } else {
    SwitchStack(block.fibers[self]->stack, block.outside);
  }
}

void RunThread() {
  BeginFiber();
  for (;;) {
    AcquireOrder(&block.begin_order);
    (*block.body)();
    ReleaseOrder(&block.end_order);
    block.lanes[block.current].state = State::kDone;
    ++block.done;
    Suspend();
  }
}

std::string Name(unsigned thread) { return "thread " + std::to_string(thread); }

std::string InBlock() {
  return " in block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
         std::to_string(blockIdx.z) + ")";
}

std::string Describe(const Failure& failure) {
  if (failure.not_awaited) {
    return Name(failure.thread) + " ends without AwaitEarlierKernels" + InBlock();
  }
  if (failure.shared_bytes > 0) {
    return "the kernel has " + std::to_string(failure.shared_bytes) + " bytes of shared memory";
  }
  if (failure.is_address) {
    return Name(failure.thread) + " gives " + failure.operation +
           " an address that is not aligned to 16 bytes," + InBlock();
  }
  if (failure.other == nullptr) {
    return Name(failure.thread) + " calls " + failure.operation +
           " for part of a warp, which is not emulated," + InBlock();
  }
  return Name(failure.thread) + " is at " + failure.operation + " while " +
         Name(failure.other_thread) + " is at " + failure.other + InBlock();
}

// Leaves the calling thread for good: its stack is abandoned with the launch.
void Fail(const Failure& failure) {
  block.failure = failure;
  block.failure.any = true;
  block.failure.thread = block.current;
  ReleaseOrder(&block.end_order);
  SwitchStack(block.fibers[block.current]->stack, block.outside);
}

std::string WhereTheyWait() {
  const unsigned in_warps = block.threads - block.done - block.at_barrier;
  std::string text = "of " + std::to_string(block.threads) + " threads " +
                     std::to_string(block.at_barrier) + " wait at __syncthreads, " +
                     std::to_string(in_warps) + " at warp operations, " +
                     std::to_string(block.done) + " have ended";
  for (unsigned t = 0; t < block.threads && in_warps > 0; ++t) {
    if (block.lanes[t].state != State::kAtWarp) continue;
    text += "; " + Name(t) + " waits at " + block.warps[t / kWarp].operation;
    break;
  }
  return text + InBlock();
}

// Makes the first bytes of the memory for variables NaN, and all of it inaccessible.
void ClearStatics(size_t bytes) {
#if defined(OUTRIDER_ADDRESS_SANITIZER)
  ASAN_UNPOISON_MEMORY_REGION(block.statics.get(), kStaticsRoom);
#endif
  std::memset(block.statics.get(), 0xff, bytes);
#if defined(OUTRIDER_ADDRESS_SANITIZER)
  ASAN_POISON_MEMORY_REGION(block.statics.get(), kStaticsRoom);
#endif
  block.variable_count = 0;
  block.statics_used = block.statics_bytes = 0;
}

// Runs the block's threads in turn until all have exited or none can continue. Returns the failure.
std::string RunBlock() {
  std::fill_n(block.lanes, block.threads, Lane());
  std::fill_n(block.warps, kMaxThreads / kWarp, Warp());
  const dim3& shape = block.shape;
  for (unsigned t = 0; t < block.threads; ++t) {
    ++block.warps[t / kWarp].lanes;
    block.lanes[t].index = {t % shape.x, t / shape.x % shape.y, t / (shape.x * shape.y)};
  }
  block.at_barrier = block.done = 0;
  ++block.number;
  ClearStatics(block.statics_used);
  ReleaseOrder(&block.begin_order);
  std::string failure;
  while (block.done < block.threads && failure.empty()) {
    bool moved = false;
    for (unsigned i = 0; i < block.threads && !block.failure.any; ++i) {
      const unsigned t = reverse_order ? block.threads - 1 - i : i;
      if (block.lanes[t].state != State::kReady) continue;
      moved = true;
      SetThread(t);
      SwitchStack(block.outside, block.fibers[t]->stack);
      // Others may have continued after it.
      i = reverse_order ? block.threads - 1 - block.current : block.current;
    }
    if (block.failure.any) {
      failure = Describe(block.failure);
    } else if (!moved) {
      failure = WhereTheyWait();
    }
  }
  AcquireOrder(&block.end_order);
  AcquireOrder(&block.barrier_order);
  for (char& warp : block.warp_order) AcquireOrder(&warp);
  return failure;
}

std::string WhatIsWrong(dim3 grid, dim3 shape, size_t shared_bytes) {
  const uint64_t threads = uint64_t{shape.x} * shape.y * shape.z;
  if (threads == 0 || threads > kMaxThreads) return "a block of " + std::to_string(threads);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return "an empty grid";
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return "too large a grid";
  if (shared_bytes > SharedLimit().dynamic) {
    return std::to_string(shared_bytes) + " bytes of shared memory";
  }
  return "";
}

cudaError_t FailedWith(cudaError_t error, const std::string& why) {
  last_failure = why;
  return Failed(error);
}

[[gnu::always_inline]] inline void WaitForWarp(const char* operation, unsigned mask) {
  Warp& warp = block.warps[block.current / kWarp];
  if (mask != 0xffffffffu || warp.lanes != kWarp) Fail({.operation = operation});
  if (warp.waiting == 0) {
    warp.operation = operation;
    warp.first_waiter = block.current;
  } else if (warp.operation != operation) {
    Fail({.operation = operation, .other = warp.operation, .other_thread = warp.first_waiter});
  }
  ReleaseOrder(&block.warp_order[block.current / kWarp]);
  if (++warp.waiting == kWarp) {
    warp.waiting = 0;
    const unsigned first = block.current / kWarp * kWarp;
    for (unsigned t = first; t < first + kWarp; ++t) block.lanes[t].state = State::kReady;
  } else {
    block.lanes[block.current].state = State::kAtWarp;
    Suspend();
  }
  AcquireOrder(&block.warp_order[block.current / kWarp]);
}

// Every lane deposits its bits and waits; slower lanes may still read the other buffer.
[[gnu::always_inline]] inline unsigned Exchange(const char* operation, unsigned mask,
                                                uint64_t bits) {
  Lane& self = block.lanes[block.current];
  self.parity ^= 1;
  self.deposit[self.parity] = bits;
  const unsigned parity = self.parity;
  WaitForWarp(operation, mask);
  return parity;
}

cudaError_t RunGrid(dim3 grid, dim3 shape, size_t shared_bytes, size_t most_shared,
                    const std::function<void()>& body) {
  block.threads = shape.x * shape.y * shape.z;
  block.shape = shape;
  block.body = &body;
  block.failure = Failure();
  block.outside = OutsideStack();
  while (block.fibers.size() < block.threads) {
    block.fibers.push_back(std::make_unique<Fiber>(&RunThread));
  }
  block.shared.reset(new unsigned char[shared_bytes]);
  block.shared_bytes = shared_bytes;
  block.most_shared = most_shared;
  if (block.statics == nullptr) block.statics.reset(new unsigned char[kStaticsRoom]);
  ClearStatics(kStaticsRoom);
  blockDim = shape;
  gridDim = grid;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        std::memset(block.shared.get(), 0xff, shared_bytes);
        if (const std::string failure = RunBlock(); !failure.empty()) {
          block.fibers.clear();
          return FailedWith(cudaErrorLaunchFailure, failure);
        }
      }
    }
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t LaunchGrid(dim3 grid, dim3 shape, size_t shared_bytes, cudaStream_t stream,
                       std::function<void()> body) {
  if (const std::string wrong = WhatIsWrong(grid, shape, shared_bytes); !wrong.empty()) {
    return FailedWith(cudaErrorInvalidConfiguration, wrong);
  }
  ++launches;
  return Enqueue(stream, [=, most = SharedLimit().all, body = std::move(body)] {
    return RunGrid(grid, shape, shared_bytes, most, body);
  });
}

void Await() { block.lanes[block.current].awaited = true; }
void CheckAwaited() {
  if (!block.lanes[block.current].awaited) Fail({.not_awaited = true});
}

void* DynamicShared() { return block.shared.get(); }

void* StaticShared(const void* variable, size_t bytes) {
  for (unsigned i = 0; i < block.variable_count; ++i) {
    const Variable& known = block.variables[i];
    if (known.identity == variable) return block.statics.get() + known.begin;
  }
  const size_t rounded = (bytes + 15) / 16 * 16;
  block.statics_bytes += rounded;
  const size_t all = block.statics_bytes + block.shared_bytes;
  if (block.statics_bytes > kMaxShared || all > block.most_shared ||
      block.variable_count == kMaxVariables) {
    Fail({.shared_bytes = all});
  }
  const size_t begin = block.statics_used + kVariableGap;
  block.statics_used = begin + rounded;
  block.variables[block.variable_count++] = {variable, begin};
  unsigned char* const memory = block.statics.get() + begin;
#if defined(OUTRIDER_ADDRESS_SANITIZER)
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#endif
  return memory;
}

int64_t Launches() { return launches; }
void CountOverlap() { ++overlaps; }
int64_t Overlaps() { return overlaps; }
const std::string& LastFailure() { return last_failure; }
void SetReverseOrder(bool reverse) { reverse_order = reverse; }

uint64_t ShuffleBits(Shuffle kind, unsigned mask, uint64_t bits, int operand, int width) {
  const unsigned parity = Exchange(kShuffle, mask, bits);
  const int lane = static_cast<int>(block.current % kWarp);
  const int begin = lane / width * width;
  int source = lane;
  switch (kind) {
    case Shuffle::kIndex: source = begin + operand % width; break;
    case Shuffle::kUp: source = lane - operand < begin ? lane : lane - operand; break;
    case Shuffle::kDown: source = lane + operand >= begin + width ? lane : lane + operand; break;
    case Shuffle::kXor: source = (lane ^ operand) >= begin + width ? lane : lane ^ operand; break;
  }
  return block.lanes[block.current / kWarp * kWarp + static_cast<unsigned>(source)].deposit[parity];
}

void CheckAligned(const void* address, const char* operation) {
  if (reinterpret_cast<uintptr_t>(address) % 16 == 0) return;
  Fail({.operation = operation, .is_address = true});
}

unsigned CurrentThread() { return block.current; }
uint64_t CurrentBlock() { return block.number; }

WarpExchange::WarpExchange(const char* operation, uint64_t bits)
    : parity_(Exchange(operation, 0xffffffffu, bits)) {}
uint64_t WarpExchange::Of(unsigned lane) const {
  return block.lanes[block.current / kWarp * kWarp + lane].deposit[parity_];
}

}  // namespace outrider::cuda_emulation

using namespace outrider::cuda_emulation;

void __syncthreads() {
  ReleaseOrder(&block.barrier_order);
  if (++block.at_barrier == block.threads) {
    block.at_barrier = 0;
    for (unsigned t = 0; t < block.threads; ++t) block.lanes[t].state = State::kReady;
  } else {
    block.lanes[block.current].state = State::kAtBarrier;
    Suspend();
  }
  AcquireOrder(&block.barrier_order);
}

void __syncwarp(unsigned mask) { WaitForWarp(kSync, mask); }

unsigned __ballot_sync(unsigned mask, int predicate) {
  const unsigned parity = Exchange(kBallot, mask, predicate != 0 ? 1 : 0);
  unsigned votes = 0;
  for (unsigned i = 0; i < kWarp; ++i) {
    votes |= static_cast<unsigned>(block.lanes[block.current / kWarp * kWarp + i].deposit[parity])
             << i;
  }
  return votes;
}

int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == 0xffffffffu ? 1 : 0;
}
