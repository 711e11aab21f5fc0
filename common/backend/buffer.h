// Memory of a backend.
//
// Thread: the backend's owner.
#pragma once

#include <cstddef>

namespace outrider {

// Zero-filled when new, unless its allocator says otherwise.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() = 0;
  virtual size_t bytes() const = 0;
  float* floats() { return static_cast<float*>(data()); }
};

}  // namespace outrider
