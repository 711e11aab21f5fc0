// A weight matrix as a backend keeps it.
//
// Thread: the backend's owner.
#pragma once

#include <cstddef>

namespace outrider {

// The format that a weight matrix is kept in. kF16: on a GPU alone. kInt8: on the CPU alone;
// symmetric, one scale per output row. Whatever depends on the format is a switch over all of them
// without a default, so that the compiler names every place that a new format has to be added to.
enum class WeightType { kBf16, kF16, kF32, kInt8 };

// A weight matrix packed once for this backend's product y[out] = W[out, in] x[in]: its values, the
// scales that its format has, and the format.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual int out_features() const = 0;
  virtual int in_features() const = 0;
  virtual size_t bytes() const = 0;
};

}  // namespace outrider
