// A weight matrix as a backend keeps it.
//
// Thread: the backend's owner.
#pragma once

#include <cstddef>

namespace outrider {

// The format of a weight matrix. kF16: only on a GPU. kW8A16, kW4A16 and kFp8: codes of
// quantized_matrix.h with scales for groups of inputs, times float activations. kMxfp4: the same
// with codes kFp4E2M1, whose scales are kept as a byte each. kW8A8: 8-bit integers with one scale
// per output, times 8-bit activations (one scale per row); a GPU uses float activations there too.
// Whatever depends on the format is a switch over all values without a default, so that the
// compiler lists every place where a new format must be added.
enum class WeightType { kBf16, kF16, kF32, kW8A16, kW8A8, kW4A16, kFp8, kMxfp4 };

constexpr const char* WeightTypeName(WeightType type) {
  switch (type) {
    case WeightType::kBf16: return "bf16";
    case WeightType::kF16: return "f16";
    case WeightType::kF32: return "f32";
    case WeightType::kW8A16: return "w8a16";
    case WeightType::kW8A8: return "w8a8";
    case WeightType::kW4A16: return "w4a16";
    case WeightType::kFp8: return "fp8";
    case WeightType::kMxfp4: return "mxfp4";
  }
  return "unknown";
}

// A weight matrix packed once for this backend's product y[out] = W[out, in] x[in]: its values, the
// scales of its format, and the format.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual int out_features() const = 0;
  virtual int in_features() const = 0;
  virtual size_t bytes() const = 0;
  virtual WeightType type() const = 0;
};

}  // namespace outrider
