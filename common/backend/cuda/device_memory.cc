#include "common/backend/cuda/device_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <thread>

#include "common/backend/cuda/stream_capture.h"
#include "common/base/check.h"

namespace outrider {
namespace {

constexpr size_t kAlignmentBytes = 256;

size_t Aligned(size_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

std::unique_ptr<CudaBuffer> MustAllocate(MemoryKind kind, size_t bytes, const Stream* stream) {
  Result<std::unique_ptr<CudaBuffer>> buffer = CudaBuffer::Allocate(kind, bytes, stream);
  if (!buffer.ok()) CheckFailed(buffer.status().message().c_str(), __FILE__, __LINE__);
  return std::move(buffer).value();
}

}  // namespace

void MustSucceed(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  const std::string text = std::string("CUDA, ") + what + ": " + cudaGetErrorString(error);
  if (StreamCapture::Invalidate(text)) return;
  CheckFailed(text.c_str(), __FILE__, __LINE__);
}

Result<std::unique_ptr<CudaBuffer>> CudaBuffer::Allocate(MemoryKind kind, size_t bytes,
                                                         const Stream* stream) {
  const bool counted = kind == MemoryKind::kDevice;
  OUTRIDER_CHECK(!counted || stream != nullptr);
  const bool on_device = kind != MemoryKind::kPinnedHost;
  void* data = nullptr;
  const cudaError_t error = on_device ? cudaMalloc(&data, std::max<size_t>(bytes, 1))
                                      : cudaMallocHost(&data, std::max<size_t>(bytes, 1));
  if (error == cudaSuccess) {
    return std::unique_ptr<CudaBuffer>(
        new CudaBuffer(kind, counted ? stream->frees_ : nullptr, data, bytes));
  }
  cudaGetLastError();  // clears the error, which is sticky although the device stays usable
  // For a size that no memory has, some drivers report an invalid value.
  const bool is_out_of_memory =
      error == cudaErrorMemoryAllocation || error == cudaErrorInvalidValue;
  MustSucceed(is_out_of_memory ? cudaSuccess : error, "allocating memory");
  size_t free = 0, total = 0;
  MustSucceed(cudaMemGetInfo(&free, &total), "reading the free memory");
  return ResourceExhausted(std::string(on_device ? "device" : "pinned host") +
                           " memory: " + std::to_string(bytes) + " bytes asked for" +
                           (on_device ? ", " + std::to_string(free) + " of the device's " +
                                            std::to_string(total) + " are free"
                                      : ""));
}

CudaBuffer::~CudaBuffer() {
  if (frees_ != nullptr) ++*frees_;
  MustSucceed(kind_ == MemoryKind::kPinnedHost ? cudaFreeHost(data_) : cudaFree(data_),
              "freeing memory");
}

Stream::Stream() {
  MustSucceed(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}
Stream::~Stream() { MustSucceed(cudaStreamDestroy(stream_), "destroying a stream"); }

void Stream::Wait() const {
  if (watch_ == nullptr) {
    MustSucceed(cudaStreamSynchronize(stream_), "waiting for the device");
    return;
  }
  WaitUnless([this] {
    watch_();
    return false;
  });
}

bool Stream::WaitUnless(const std::function<bool()>& give_up) const {
  while (!give_up()) {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state != cudaErrorNotReady) {
      MustSucceed(state, "waiting for the device");
      return true;
    }
    cudaGetLastError();  // clears the state, which the next launch would report as its error
    std::this_thread::yield();
  }
  return false;
}

Result<std::unique_ptr<StagedCopy>> StagedCopy::Create(const Stream* stream) {
  std::unique_ptr<StagedCopy> copy(new StagedCopy(stream));
  for (int i = 0; i < 2; ++i) {
    OUTRIDER_ASSIGN(copy->pieces_[i],
                    CudaBuffer::Allocate(MemoryKind::kPinnedHost, kPieceBytes, nullptr));
    MustSucceed(cudaEventCreateWithFlags(&copy->copied_[i], cudaEventDisableTiming),
                "creating an event");
  }
  return copy;
}

StagedCopy::~StagedCopy() {
  for (cudaEvent_t event : copied_) {
    if (event != nullptr) MustSucceed(cudaEventDestroy(event), "destroying an event");
  }
}

void StagedCopy::Write(void* device, size_t bytes, size_t unit,
                       const std::function<void(std::byte*, size_t, size_t)>& fill) {
  OUTRIDER_CHECK(unit > 0 && unit <= kPieceBytes && bytes % unit == 0);
  const size_t units = bytes / unit;
  const size_t per_piece = kPieceBytes / unit;
  for (size_t first = 0; first < units; first += per_piece) {
    const size_t count = std::min(per_piece, units - first);
    auto* piece = static_cast<std::byte*>(pieces_[next_]->data());
    MustSucceed(cudaEventSynchronize(copied_[next_]), "waiting for a copy");
    fill(piece, first, count);
    MustSucceed(cudaMemcpyAsync(static_cast<std::byte*>(device) + first * unit, piece, count * unit,
                                cudaMemcpyHostToDevice, stream_.get()),
                "copying to the device");
    MustSucceed(cudaEventRecord(copied_[next_], stream_.get()), "copying to the device");
    next_ = 1 - next_;
  }
}

// Here and in Take: a graph would copy again, from memory that has other contents by then.
const void* UploadRing::AddBytes(const void* host, size_t bytes, size_t room) {
  if (StreamCapture::Invalidate("a host array is sent to the device")) return nullptr;
  constexpr size_t kFirstBlockBytes = size_t{1} << 20;
  room = Aligned(room);
  if (blocks_.empty() || blocks_.back().used + room > blocks_.back().device->bytes()) {
    Send();
    const size_t before = blocks_.empty() ? kFirstBlockBytes / 2 : blocks_.back().device->bytes();
    const size_t size = std::max(2 * before, room);
    blocks_.push_back({MustAllocate(kind_, size, &stream_),
                       MustAllocate(MemoryKind::kPinnedHost, size, nullptr)});
    ++moves_;
  }
  Block& block = blocks_.back();
  const size_t offset = block.used;
  block.used += room;
  if (bytes > 0) std::memcpy(static_cast<std::byte*>(block.host->data()) + offset, host, bytes);
  return static_cast<std::byte*>(block.device->data()) + offset;
}

void UploadRing::Send() {
  if (blocks_.empty() || blocks_.back().sent == blocks_.back().used) return;
  Block& block = blocks_.back();
  MustSucceed(cudaMemcpyAsync(static_cast<std::byte*>(block.device->data()) + block.sent,
                              static_cast<std::byte*>(block.host->data()) + block.sent,
                              block.used - block.sent, cudaMemcpyHostToDevice, stream_.get()),
              "copying to the device");
  block.sent = block.used;
}

void UploadRing::Reset() {
  if (blocks_.empty()) return;
  if (blocks_.size() > 1) {
    blocks_.erase(blocks_.begin(), blocks_.end() - 1);
    ++moves_;
  }
  blocks_.back().used = blocks_.back().sent = 0;
}

std::byte* PinnedStaging::Take(size_t bytes) {
  constexpr size_t kFirstBlockBytes = size_t{256} << 10;
  if (StreamCapture::Invalidate("a host array is sent to the device")) return nullptr;
  const size_t room = Aligned(bytes);
  if (blocks_.empty() || used_ + room > blocks_.back()->bytes()) {
    const size_t before = blocks_.empty() ? kFirstBlockBytes / 2 : blocks_.back()->bytes();
    blocks_.push_back(MustAllocate(MemoryKind::kPinnedHost, std::max(2 * before, room), nullptr));
    used_ = 0;
  }
  const size_t offset = used_;
  used_ += room;
  return static_cast<std::byte*>(blocks_.back()->data()) + offset;
}

void PinnedStaging::Reset() {
  if (blocks_.size() > 1) blocks_.erase(blocks_.begin(), blocks_.end() - 1);
  used_ = 0;
}

void* Scratch::AtLeast(size_t bytes) {
  if (buffer_ == nullptr || buffer_->bytes() < bytes) {
    if (StreamCapture::Invalidate("working memory grows")) return nullptr;
    stream_.Wait();  // for readers of the old buffer
    buffer_.reset();
    buffer_ = MustAllocate(kind_, std::bit_ceil(bytes), &stream_);
    ++moves_;
  }
  return buffer_->data();
}

}  // namespace outrider
