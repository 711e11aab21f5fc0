// Memory and streams of one device, owned: what the backend is built from.
//
// Thread: the backend's owner. What can run out returns a Status; a device that fails at anything
// else is beyond repair (its context is lost), and the process ends with words (MustSucceed). What
// fails while a graph is captured (stream_capture.h), or may not be done then, spoils the capture.
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

// Ends the process when `error` is one, or the capture that is under way; `what` is what was being
// done.
void MustSucceed(cudaError_t error, const char* what);

enum class MemoryKind { kDevice, kPinnedHost };

class CudaBuffer final : public Buffer {
 public:
  // kResourceExhausted when memory is out. Filled with nothing.
  static Result<std::unique_ptr<CudaBuffer>> Allocate(MemoryKind kind, size_t bytes);
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

  // How often device memory has come or gone, in this process: addresses that were right before may
  // be wrong when it has changed.
  static int64_t moves();

 private:
  CudaBuffer(MemoryKind kind, void* data, size_t bytes) : kind_(kind), data_(data), bytes_(bytes) {}

  const MemoryKind kind_;
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
  void Wait() const { MustSucceed(cudaStreamSynchronize(stream_), "waiting for the device"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// Large data to the device through two pinned buffers: one is filled while the other travels.
class StagedCopy {
 public:
  static Result<std::unique_ptr<StagedCopy>> Create(const Stream* stream);
  ~StagedCopy();

  // Writes `bytes` at `device` in pieces of whole `unit`s (unit <= kPieceBytes): fill(host, first
  // unit, units) makes each piece.
  void Write(void* device, size_t bytes, size_t unit,
             const std::function<void(std::byte* host, size_t first, size_t count)>& fill);

  static constexpr size_t kPieceBytes = size_t{16} << 20;

 private:
  explicit StagedCopy(const Stream* stream) : stream_(*stream) {}

  const Stream& stream_;
  std::unique_ptr<CudaBuffer> pieces_[2];
  cudaEvent_t travelled_[2] = {};
  int next_ = 0;
};

// Small arrays to the device, many in one copy: Add gives each its slot, Send enqueues the copy of
// all that was added. Places and contents stay until Reset.
class UploadRing {
 public:
  explicit UploadRing(const Stream* stream) : stream_(*stream) {}

  // With room for `room` of them: where the next array stands follows from the rooms.
  template <class T>
  const T* Add(const T* host, size_t count, size_t room = 0) {
    return static_cast<const T*>(
        AddBytes(host, count * sizeof(T), std::max(count, room) * sizeof(T)));
  }
  void Send();
  // REQUIRES: the stream has been waited for.
  void Reset();

 private:
  struct Block {
    std::unique_ptr<CudaBuffer> device, host;
    size_t used = 0, sent = 0;
  };
  const void* AddBytes(const void* host, size_t bytes, size_t room);

  const Stream& stream_;
  std::vector<Block> blocks_;  // the last one is filled
};

// Pinned memory for what is on its way to the device: every Take is another slot until Reset.
class PinnedStaging {
 public:
  std::byte* Take(size_t bytes);
  // REQUIRES: the stream that the copies are on has been waited for.
  void Reset();

 private:
  std::vector<std::unique_ptr<CudaBuffer>> blocks_;  // the last one is filled
  size_t used_ = 0;                                  // of it
};

// Working memory that grows to what is asked for, by powers of two: device memory that comes makes
// all graphs void, so it is to come seldom.
class Scratch {
 public:
  explicit Scratch(const Stream* stream, MemoryKind kind = MemoryKind::kDevice)
      : stream_(*stream), kind_(kind) {}
  // At least `bytes`; what was there may be gone. Ends the process when memory is out: the memory
  // plan (model/memory_plan.h) leaves room for it.
  void* AtLeast(size_t bytes);
  // What AtLeast gave last.
  void* data() const { return buffer_->data(); }

 private:
  const Stream& stream_;
  const MemoryKind kind_;
  std::unique_ptr<CudaBuffer> buffer_;
};

}  // namespace outrider
