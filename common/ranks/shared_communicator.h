// A Communicator for ranks of one machine that compute in host memory: a region of shared memory
// with a barrier and, for each rank, room for its part.
//
// Thread: the backend's owner, of each rank.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <memory>

#include "common/backend/communicator.h"
#include "common/base/file_descriptor.h"
#include "common/base/status.h"

namespace outrider {

class SharedCommunicator : public Communicator {
 public:
  // Creates the region for `ranks` ranks and operations of up to `floats` floats of each.
  // kResourceExhausted when out of memory.
  static Result<FileDescriptor> CreateRegion(int ranks, size_t floats);
  // Maps a region that CreateRegion has made with the same sizes.
  static Result<std::unique_ptr<SharedCommunicator>> Open(int region, int rank, int ranks,
                                                          size_t floats);
  ~SharedCommunicator() override;
  SharedCommunicator(const SharedCommunicator&) = delete;
  SharedCommunicator& operator=(const SharedCommunicator&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  // Adds in the order of ranks.
  void AllReduce(float* values, size_t count) override;
  void GatherColumns(const float* mine, int rows, int columns, float* all) override;

 private:
  SharedCommunicator(void* region, int rank, int ranks, size_t floats)
      : region_(region), rank_(rank), ranks_(ranks), floats_(floats) {}
  float* PartOf(int rank) const;
  // Publishes `count` floats and waits until every rank has.
  void Exchange(const float* mine, size_t count);

  void* const region_;
  const int rank_, ranks_;
  const size_t floats_;
  // Parts alternate between two places, so that one barrier an operation is enough: a rank that
  // writes to a place again knows that all have read what was there before.
  int place_ = 0;
};

}  // namespace outrider
