// Owning wrappers of one device's memory and streams, the building blocks of the backend.
//
// Thread: the backend's owner. Running out of memory returns a Status; any other device error is
// beyond repair (the context is lost), and the process terminates with a message (MustSucceed). A
// failure while a graph is captured (stream_capture.h), or a call that is not allowed then, only
// invalidates the capture.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/backend/buffer.h"
#include "common/base/status.h"

namespace outrider {

// If `error` is an error, terminates the process, or invalidates the capture in progress; `what`
// says what was being done.
void MustSucceed(cudaError_t error, const char* what);

class Stream;

enum class MemoryKind {
  kDevice,
  // Device memory to which no captured work refers, or that is freed only after it.
  kDeviceOutsideGraphs,
  kPinnedHost,
};

class CudaBuffer final : public Buffer {
 public:
  // Uninitialised memory. `stream` counts when memory of kDevice is freed (Stream::frees); the
  // other kinds need none. kResourceExhausted when out of memory.
  static Result<std::unique_ptr<CudaBuffer>> Allocate(MemoryKind kind, size_t bytes,
                                                      const Stream* stream);
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  CudaBuffer(MemoryKind kind, std::shared_ptr<int64_t> frees, void* data, size_t bytes)
      : kind_(kind), frees_(std::move(frees)), data_(data), bytes_(bytes) {}

  const MemoryKind kind_;
  const std::shared_ptr<int64_t> frees_;  // the stream's count, of kDevice
  void* const data_;
  const size_t bytes_;
};

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  // Waits until the work enqueued so far is done.
  void Wait() const;
  // The same, unless `give_up` returns true, which is called again and again meanwhile, at least
  // once. Returns whether the work is done.
  bool WaitUnless(const std::function<bool()>& give_up) const;
  // Sets what Wait calls again and again: it terminates the process if the work will never be done.
  void Watch(std::function<void()> watch) { watch_ = std::move(watch); }

  // Counts how often memory of kDevice that was allocated for this stream was freed: graphs
  // captured before it last changed may refer to memory that is gone. New memory moves nothing.
  int64_t frees() const { return *frees_; }

 private:
  friend class CudaBuffer;

  cudaStream_t stream_ = nullptr;
  std::function<void()> watch_;
  const std::shared_ptr<int64_t> frees_ = std::make_shared<int64_t>(0);
};

// Copies large data to the device through two pinned buffers: one is filled while the other is
// copied.
class StagedCopy {
 public:
  static Result<std::unique_ptr<StagedCopy>> Create(const Stream* stream);
  ~StagedCopy();

  // Writes `bytes` to `device` in pieces of whole `unit`s (unit <= kPieceBytes): fill(host, first
  // unit, units) produces each piece.
  void Write(void* device, size_t bytes, size_t unit,
             const std::function<void(std::byte* host, size_t first, size_t count)>& fill);

  static constexpr size_t kPieceBytes = size_t{16} << 20;

  // The stream that the copies are enqueued on.
  const Stream& stream() const { return stream_; }

 private:
  explicit StagedCopy(const Stream* stream) : stream_(*stream) {}

  const Stream& stream_;
  std::unique_ptr<CudaBuffer> pieces_[2];
  cudaEvent_t copied_[2] = {};  // when a piece may be filled again
  int next_ = 0;
};

// Copies small arrays to the device, many in one transfer: Add assigns each its slot, Send enqueues
// the copy of everything added. Addresses and contents are valid until Reset.
//
//   const int32_t* tokens = ring.Add(host_tokens, rows);  // an address on the device
//   const int32_t* slots = ring.Add(host_slots, rows);
//   ring.Send();
//   Launch(Kernel, ..., tokens, slots);
//   stream.Wait();
//   ring.Reset();
class UploadRing {
 public:
  // `kind` is that of the device's blocks.
  explicit UploadRing(const Stream* stream, MemoryKind kind = MemoryKind::kDevice)
      : stream_(*stream), kind_(kind) {}

  // Reserves capacity for `room` elements: where the next array begins depends only on the
  // capacities.
  template <class T>
  const T* Add(const T* host, size_t count, size_t room = 0) {
    return static_cast<const T*>(
        AddBytes(host, count * sizeof(T), std::max(count, room) * sizeof(T)));
  }
  void Send();
  // REQUIRES: the stream has been synchronised.
  void Reset();
  // Changes whenever arrays of equal room would be at other addresses than before.
  int64_t moves() const { return moves_; }

 private:
  struct Block {
    std::unique_ptr<CudaBuffer> device, host;
    size_t used = 0, sent = 0;
  };
  const void* AddBytes(const void* host, size_t bytes, size_t room);

  const Stream& stream_;
  const MemoryKind kind_;
  std::vector<Block> blocks_;  // the last one is being filled
  int64_t moves_ = 0;
};

// Pinned memory for transfers to the device: every Take returns another slot until Reset.
class PinnedStaging {
 public:
  std::byte* Take(size_t bytes);
  // REQUIRES: the stream of the copies has been synchronised.
  void Reset();

 private:
  std::vector<std::unique_ptr<CudaBuffer>> blocks_;  // the last one is being filled
  size_t used_ = 0;                                  // bytes of the last block
};

// Working memory that grows on demand, by powers of two. If it is of kDevice, growing invalidates
// all graphs of the stream, so it should be rare.
class Scratch {
 public:
  explicit Scratch(const Stream* stream, MemoryKind kind = MemoryKind::kDevice)
      : stream_(*stream), kind_(kind) {}
  // At least `bytes`; previous contents may be lost. Terminates the process when out of memory: the
  // memory plan (model/memory_plan.h) leaves room for it.
  void* AtLeast(size_t bytes);
  // The result of the last AtLeast.
  void* data() const { return buffer_->data(); }
  // Changes whenever the memory does.
  int64_t moves() const { return moves_; }

 private:
  const Stream& stream_;
  const MemoryKind kind_;
  std::unique_ptr<CudaBuffer> buffer_;
  int64_t moves_ = 0;
};

}  // namespace outrider
