// Zeroed memory on cache-line boundaries; large blocks on huge-page boundaries, so that streaming
// through weights does not also stream through page tables.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "common/base/status.h"

namespace outrider {

class AlignedBytes {
 public:
  AlignedBytes() = default;
  // kResourceExhausted when memory is out.
  static Result<AlignedBytes> Allocate(size_t bytes);

  char* data() { return data_.get(); }
  const char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> data_;
  size_t size_ = 0;
};

}  // namespace outrider
