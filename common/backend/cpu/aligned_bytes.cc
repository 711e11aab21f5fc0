#include "common/backend/cpu/aligned_bytes.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace outrider {
namespace {

constexpr size_t kCacheLineBytes = 64;
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kAddressSpaceBytes = size_t{1} << 47;

// `bytes` of zeros, aligned to huge pages, which the kernel populates as they are touched.
char* MapHugePages(size_t bytes) {
  void* const map = mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(map);
  const size_t before =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(map) % kHugePageBytes) % kHugePageBytes;
  char* const data = begin + before;
  if (before > 0) munmap(begin, before);
  munmap(data + bytes, kHugePageBytes - before);
  // Only advice: without huge pages everything works, but a little slower.
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

}  // namespace

void AlignedBytes::Free::operator()(char* p) const {
  if (mapped > 0) {
    munmap(p, mapped);
  } else {
    std::free(p);
  }
}

Result<AlignedBytes> AlignedBytes::Allocate(size_t bytes) {
  AlignedBytes block;
  if (bytes == 0) return block;
  const bool is_large = bytes >= kHugePageBytes;
  const size_t alignment = is_large ? kHugePageBytes : kCacheLineBytes;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  char* data = nullptr;
  if (is_large && bytes <= kAddressSpaceBytes) {
    data = MapHugePages(rounded);
  } else if (!is_large) {
    data = static_cast<char*>(std::aligned_alloc(alignment, rounded));
  }
  if (data == nullptr) {
    return ResourceExhausted("cpu backend: no memory for " + std::to_string(bytes) + " bytes");
  }
  if (!is_large) std::memset(data, 0, rounded);
  block.data_ = {data, Free{.mapped = is_large ? rounded : 0}};
  block.size_ = bytes;
  return block;
}

}  // namespace outrider
