// A weight matrix as a backend keeps it.
//
// Thread: the backend's owner.
#pragma once

#include <cstddef>

namespace outrider {

// The format that a weight matrix is kept in. kF16: on a GPU alone. kW8A16, kW4A16 and kFp8: codes
// of quantized_matrix.h with scales for groups of inputs, times activations in floats. kW8A8: 8-bit
// integers with one scale per output, times activations in 8 bits (one scale per row); a GPU takes
// activations in floats there too. Whatever depends on the format is a switch over all of them
// without a default, so that the compiler names every place that a new format has to be added to.
enum class WeightType { kBf16, kF16, kF32, kW8A16, kW8A8, kW4A16, kFp8 };

// A weight matrix packed once for this backend's product y[out] = W[out, in] x[in]: its values, the
// scales that its format has, and the format.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual int out_features() const = 0;
  virtual int in_features() const = 0;
  virtual size_t bytes() const = 0;
  virtual WeightType type() const = 0;
};

}  // namespace outrider
