// Zeroed memory, aligned to cache lines; large blocks are aligned to huge pages, so that streaming
// through weights does not also stream through page tables. A large block becomes resident page by
// page as it is written: a KV cache occupies only what it has used.
#pragma once

#include <cstddef>
#include <memory>

#include "common/base/status.h"

namespace outrider {

class AlignedBytes {
 public:
  AlignedBytes() = default;
  // kResourceExhausted when out of memory.
  static Result<AlignedBytes> Allocate(size_t bytes);

  char* data() { return data_.get(); }
  const char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  // std::free, or munmap for a large block.
  struct Free {
    size_t mapped;  // bytes; 0: from the allocator
    void operator()(char* p) const;
  };
  std::unique_ptr<char, Free> data_;
  size_t size_ = 0;
};

}  // namespace outrider
