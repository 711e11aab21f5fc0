// 16-bit copies of activations for the products that read them.
//
// Products with 16-bit weights read activations of the same type. An op whose result is read next
// by such a product writes the copy itself, beside its floats or instead of them (OutputFor); for
// anything else the product makes the copy (Of). A copy is known by the address of its floats, so
// whoever changes floats without a copy must say so (Overwritten), as must whoever changes copies
// or floats without calling this class, e.g. the replay of a graph (Forget). Only the last copy is
// known: two buffers take turns, so that a product can read one and write the next.
//
// Thread: the backend's owner.
#pragma once

#include <cstdint>

#include "common/backend/backend.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/rows.h"
#include "common/tensor/tensor.h"

namespace outrider {

class RoundedCopies {
 public:
  // `stream` is the one that the ops are enqueued on.
  explicit RoundedCopies(const Stream* stream)
      : stream_(*stream), buffers_{Scratch(stream), Scratch(stream)} {}

  // Sets the element type of 16-bit weights. Until then ops write no copies.
  void SetType(Dtype type) { type_ = type; }

  // Where an op writes its result.
  struct Output {
    float* floats = nullptr;  // null: the floats are not read
    RoundedRows rounded;      // no data: there is no copy
  };
  // For an op that is about to write out[rows, n]; its copy is then the last one. The memory is not
  // that of the copy before, so the op may read that one.
  Output OutputFor(Consumers consumers, int rows, int n, float* out);

  // The bits of x[rows, n], rows `stride` apart, with zeros after the first n. Enqueues the
  // rounding unless the last copy is that of at least so many rows of x. REQUIRES: SetType was
  // called; the floats of x are written, or the last copy is that of x and large enough.
  const uint16_t* Of(const float* x, int rows, int n, int stride);

  // `out` is written without a copy.
  void Overwritten(const float* out) {
    if (source_ == out) source_ = nullptr;
  }
  // Nothing is known of any copy any more.
  void Forget() { source_ = nullptr; }
  // The same at the beginning of a pass. Each pass begins with the same of the two buffers, so that
  // equal passes use equal memory, and neither buffer grows once all passes were large.
  void BeginPass() {
    Forget();
    last_ = 0;
  }

 private:
  // Makes the next buffer that of the copy of x. No data before SetType.
  RoundedRows Next(const float* x, int rows, int n);

  const Stream& stream_;
  Scratch buffers_[2];
  int last_ = 0;  // the buffer of the last copy
  Dtype type_ = Dtype::kF32;
  const float* source_ = nullptr;  // the floats of the last copy; null: it is forgotten
  bool floats_missing_ = false;    // these floats were not written
  RoundedRows copy_;
  int rows_ = 0;
};

}  // namespace outrider
