#include "common/backend/cpu/aligned_bytes.h"

#include <sys/mman.h>

#include <cstring>

namespace outrider {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAddressSpace = size_t{1} << 47;

}  // namespace

Result<AlignedBytes> AlignedBytes::Allocate(size_t bytes) {
  AlignedBytes block;
  if (bytes == 0) return block;
  const size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (bytes <= kAddressSpace) {
    block.data_.reset(static_cast<char*>(std::aligned_alloc(alignment, rounded)));
  }
  if (block.data_ == nullptr) {
    return ResourceExhausted("cpu backend: no memory for " + std::to_string(bytes) + " bytes");
  }
  // Advice only: without huge pages everything works, a little slower.
  if (alignment == kHugePage) (void)madvise(block.data_.get(), rounded, MADV_HUGEPAGE);
  std::memset(block.data_.get(), 0, rounded);
  block.size_ = bytes;
  return block;
}

}  // namespace outrider
