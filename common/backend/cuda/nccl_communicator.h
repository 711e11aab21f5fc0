// Collective operations among the devices of a tensor-parallel model, by NVIDIA's NCCL.
//
// The library (2.13 or later) is opened at run time, so that a machine with one device need not
// have it. What its documentation says and what follows here (NCCL user guide, "Creating a
// Communicator", "Group Calls", "Using NCCL with CUDA Graphs"):
//   - Each rank needs a device of its own.
//   - Operations can be captured into graphs. Whether an operation is captured must be the same on
//     all ranks, and all launch the graphs of the same captures in the same order. GraphCache
//     decides by the calls, by their keys and by the frees of memory. So from JoinNcclGroup on
//     these must be the same on all ranks, which have devices of one kind and attention of one
//     shape. A rank whose capture fails ends its process, since the others would wait for it
//     forever.
//   - The first send to a peer connects to it, which a capture permits only in thread-local mode
//     (StreamCapture).
//   - A send and its receipt make progress only together with the others of their group.
//   - Destroying a communicator waits for the other ranks to do the same, and never returns as long
//     as there are graphs with its operations.
//   - An operation never completes once another rank is gone. If NCCL notices (over a network,
//     mostly not within a machine), Stream::Wait ends the process. The owner of the processes
//     should end all of them when one has ended.
//   - A sum has the same bits on all ranks (github.com/NVIDIA/nccl/issues/1497). Its order depends
//     on the devices and on the number of values; if switches do the adding (NVLS), it may differ
//     from call to call with older drivers, which NCCL_ALGO=^NVLS in the environment avoids.
//
// Without <nccl.h> at build time all functions return kUnimplemented.
//
// Thread: the backend's owner, with its device selected.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/backend/communicator.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/graph_cache.h"
#include "common/base/status.h"

namespace outrider {

// What a communicator needs of its backend, which outlives it.
struct CommunicatorHost {
  Stream* stream = nullptr;      // on which operations are enqueued
  GraphCache* graphs = nullptr;  // that may contain operations
  // Called before each operation. The values at `out` are about to be written; null: no others are.
  std::function<void(const float* out)> before;
};

// The identifier of a new group of ranks, made by one of them. It opens a port for the others to
// connect to. `library` is a file name as dlopen takes it. kFailedPrecondition if it cannot be
// opened, or with NCCL's message.
Result<std::vector<std::byte>> NewNcclGroup(const std::string& library);

// The memory that a rank needs to join a group, once the library has been opened: what may fail
// before a rank waits for the others. kFailedPrecondition as NewNcclGroup; kResourceExhausted when
// out of memory (rank 0 needs 32 MiB to gather).
Result<std::unique_ptr<CudaBuffer>> PrepareNcclGroup(const std::string& library, int rank,
                                                     int ranks);

// Joins a group as rank `rank` of `ranks`, 0 <= rank < ranks; waits until all ranks have, and until
// a first operation has succeeded. `gathered` is of PrepareNcclGroup. kInvalidArgument for an
// identifier or a rank that is none; kFailedPrecondition with NCCL's message. Later errors end the
// process, as those of the device do, or invalidate the capture in progress. REQUIRES: the backend
// has no other communicator; no capture is under way.
Result<std::unique_ptr<Communicator>> JoinNcclGroup(const std::string& library,
                                                    std::span<const std::byte> group, int rank,
                                                    int ranks, std::unique_ptr<CudaBuffer> gathered,
                                                    CommunicatorHost host);

}  // namespace outrider
