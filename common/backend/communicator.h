// Sums and gathers over the ranks of a tensor-parallel model.
#pragma once

#include <cstddef>

namespace outrider {

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
  // On rank 0, all[rows, columns] = every rank's columns side by side; rank r has those from
  // r * width on, where width = ceil(columns / ranks), the last rank maybe fewer: `mine` is
  // [rows, its columns], dense. `all` is read by nobody else and may be null on other ranks.
  virtual void GatherColumns(const float* mine, int rows, int columns, float* all) = 0;
};

}  // namespace outrider
