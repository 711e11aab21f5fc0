// Sums and gathers over the ranks of a tensor-parallel model.
#pragma once

#include <algorithm>
#include <cstddef>

#include "common/tensor/slice.h"

namespace outrider {

// The columns of one rank where `columns` are divided among `ranks`: as many on each, but for the
// last ones, which may have fewer or none.
inline Range ColumnsOf(int rank, int ranks, int columns) {
  const int width = (columns + ranks - 1) / ranks;
  const int first = std::min(rank * width, columns);
  return {first, std::min(width, columns - first)};
}

// Collective operations among the ranks of one model, each a process with a device of its own that
// holds a part of every layer (Shoeybi et al. 2019, "Megatron-LM", section 3). All ranks call the
// same operations in the same order, with the same sizes. They are enqueued like ops of the
// backend: memory is the backend's.
//
// Thread: the backend's owner.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // 0 is the leader
  virtual int ranks() const = 0;
  // values[count] becomes the sum over all ranks, the same bits on all of them.
  virtual void AllReduce(float* values, size_t count) = 0;
  // On rank 0, all[rows, columns] = every rank's columns (ColumnsOf) side by side: `mine` is [rows,
  // its columns], dense. `all` may be null on other ranks, which do not write it.
  virtual void GatherColumns(const float* mine, int rows, int columns, float* all) = 0;
};

}  // namespace outrider
