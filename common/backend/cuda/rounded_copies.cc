#include "common/backend/cuda/rounded_copies.h"

#include <cstddef>

#include "common/base/check.h"

namespace outrider {

RoundedCopies::Output RoundedCopies::OutputFor(Consumers consumers, int rows, int n, float* out) {
  const RoundedRows rounded = Next(out, rows, n);
  floats_missing_ = rounded.data != nullptr && consumers == Consumers::kProducts;
  return {floats_missing_ ? nullptr : out, rounded};
}

const uint16_t* RoundedCopies::Of(const float* x, int rows, int n, int stride) {
  if (source_ != x || rows_ < rows || copy_.stride != stride) {
    OUTRIDER_CHECK(source_ != x || !floats_missing_);
    const RoundedRows rounded = Next(x, rows, n);
    MustSucceed(LaunchGatherRows(x, nullptr, rows, n, nullptr, rounded, stream_.get()), "rounding");
    floats_missing_ = false;
  }
  return copy_.data;
}

RoundedRows RoundedCopies::Next(const float* x, int rows, int n) {
  if (type_ == Dtype::kF32) return {};
  const int stride = (n + 7) / 8 * 8;
  const auto bytes = static_cast<size_t>(rows) * static_cast<size_t>(stride) * sizeof(uint16_t);
  last_ ^= 1;
  copy_ = {static_cast<uint16_t*>(buffers_[last_].AtLeast(bytes)), stride, type_};
  source_ = x;
  rows_ = rows;
  return copy_;
}

}  // namespace outrider
