// A fake of NCCL for tests (fake_nccl.h).
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/streams.h"

using outrider::cuda_emulation::Enqueue;
using outrider::cuda_emulation::IsTaken;

namespace {

// What all ranks of a collective must agree on.
struct Call {
  const float* from = nullptr;
  float* to = nullptr;
  size_t count = 0;
  int64_t capture = 0;  // the number of the captured operation; 0: not captured
};

struct Group {
  explicit Group(int of) : ranks(of), devices(static_cast<size_t>(of), -1), calls(devices.size()) {}

  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> devices;  // by rank; -1: has not joined
  int joined = 0, left = 0;
  // The collective under way.
  std::vector<Call> calls;
  int arrived = 0;
  int64_t done = 0;
  bool agreed = true;
  std::map<std::pair<int, int>, Call> sent;  // by sender and receiver, until received
};

std::mutex mutex;  // of the following
std::map<std::string, std::shared_ptr<Group>> groups;
std::map<std::string, ncclResult_t> to_fail;
std::string last_error;
int64_t groups_made = 0;
std::atomic<ncclResult_t> fail_later = ncclSuccess;

ncclResult_t Refuse(ncclResult_t result, const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::fprintf(stderr, "fake NCCL: %s\n", why.c_str());
  last_error = why;
  return result;
}

// ncclSuccess, unless the call is to fail.
ncclResult_t Begin(const char* call) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto it = to_fail.find(call);
  if (it == to_fail.end()) return ncclSuccess;
  const ncclResult_t result = it->second;
  to_fail.erase(it);
  last_error = std::string("told to fail ") + call;
  return result;
}

// Returns whether the two are the same operation.
bool Agree(const Call& one, const Call& other) {
  if (one.count == other.count && one.capture == other.capture) return true;
  Refuse(ncclInvalidUsage, one.count != other.count
                               ? "ranks differ in their counts"
                               : "an operation is captured on some ranks, or in other captures");
  return false;
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank = 0;
  // How many operations were captured: collectives, and transfers to and from each peer.
  int64_t captures = 0;
  std::map<std::pair<bool, int>, int64_t> transfer_captures;
  // Copies are held by the graphs with its operations.
  std::shared_ptr<int> captured = std::make_shared<int>(0);
};

namespace {

struct Transfer {
  bool is_send = false;
  int peer = 0;
  Call call;
};

// Of this thread: calls between ncclGroupStart and ncclGroupEnd.
struct Pending {
  int depth = 0;
  std::vector<Transfer> transfers;
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
};
thread_local Pending pending;

bool IsDeviceMemory(const void* values, size_t count) {
  return count == 0 || (IsTaken(values) && IsTaken(static_cast<const float*>(values) + count - 1));
}

ncclResult_t CheckArguments(const void* values, size_t count, ncclDataType_t type, ncclComm* comm,
                            cudaStream_t stream) {
  if (comm == nullptr) return Refuse(ncclInvalidArgument, "no communicator");
  if (stream == nullptr) return Refuse(ncclInvalidArgument, "the fake needs a stream");
  if (type != ncclFloat32) return Refuse(ncclInvalidArgument, "the fake has floats only");
  if (!IsDeviceMemory(values, count)) return Refuse(ncclInvalidArgument, "not device memory");
  return ncclSuccess;
}

bool Captures(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  return status != cudaStreamCaptureStatusNone;
}

// Runs, defers or records `work`.
template <class F>
ncclResult_t Post(ncclComm* comm, cudaStream_t stream, F work) {
  const std::shared_ptr<int> hold = Captures(stream) ? comm->captured : nullptr;
  const cudaError_t error =
      Enqueue(stream, [work, hold] { return work() ? cudaSuccess : cudaErrorLaunchFailure; });
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

// The sum in the order of the ranks, for all of them.
void Add(const std::vector<Call>& calls) {
  std::vector<float> sum(calls[0].from, calls[0].from + calls[0].count);
  for (size_t rank = 1; rank < calls.size(); ++rank) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += calls[rank].from[i];
  }
  for (const Call& call : calls) {
    std::memcpy(call.to, sum.data(), sum.size() * sizeof(float));
  }
}

bool RunAllReduce(Group& group, int rank, const Call& call) {
  std::unique_lock<std::mutex> lock(group.mutex);
  group.calls[static_cast<size_t>(rank)] = call;
  if (++group.arrived < group.ranks) {
    const int64_t before = group.done;
    group.changed.wait(lock, [&] { return group.done != before; });
    return group.agreed;
  }
  group.agreed = true;
  for (const Call& other : group.calls) group.agreed = group.agreed && Agree(call, other);
  if (group.agreed) Add(group.calls);
  group.arrived = 0;
  ++group.done;
  group.changed.notify_all();
  return group.agreed;
}

// All transfers of a group at once.
bool RunTransfers(Group& group, int rank, const std::vector<Transfer>& transfers) {
  std::unique_lock<std::mutex> lock(group.mutex);
  for (const Transfer& transfer : transfers) {
    if (transfer.is_send) group.sent[{rank, transfer.peer}] = transfer.call;
  }
  group.changed.notify_all();
  bool agreed = true;
  for (const Transfer& transfer : transfers) {
    if (transfer.is_send) continue;
    const std::pair key(transfer.peer, rank);
    group.changed.wait(lock, [&] { return group.sent.contains(key); });
    const Call sent = group.sent[key];
    if (Agree(transfer.call, sent)) {
      std::memcpy(transfer.call.to, sent.from, sent.count * sizeof(float));
    } else {
      agreed = false;
    }
    group.sent.erase(key);
  }
  group.changed.notify_all();
  for (const Transfer& transfer : transfers) {
    if (!transfer.is_send) continue;
    group.changed.wait(lock, [&] { return !group.sent.contains({rank, transfer.peer}); });
  }
  return agreed;
}

ncclResult_t AddTransfer(const Transfer& transfer, ncclComm* comm, cudaStream_t stream) {
  if (transfer.peer < 0 || transfer.peer >= comm->group->ranks) {
    return Refuse(ncclInvalidArgument, "no such peer");
  }
  if (pending.depth == 0) return Refuse(ncclInvalidUsage, "the fake transfers in groups only");
  if (pending.comm != nullptr && (pending.comm != comm || pending.stream != stream)) {
    return Refuse(ncclInvalidUsage, "the fake has groups of one communicator and one stream only");
  }
  pending.comm = comm;
  pending.stream = stream;
  pending.transfers.push_back(transfer);
  return ncclSuccess;
}

}  // namespace

extern "C" {

void FakeNcclFailNext(const char* call, ncclResult_t result) {
  const std::lock_guard<std::mutex> lock(mutex);
  to_fail[call] = result;
}
void FakeNcclFailLater(ncclResult_t result) { fail_later = result; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const ncclResult_t failed = Begin("ncclGetUniqueId"); failed != ncclSuccess) return failed;
  *id = {};
  const std::lock_guard<std::mutex> lock(mutex);
  std::snprintf(id->internal, sizeof(id->internal), "group %lld",
                static_cast<long long>(++groups_made));
  groups[id->internal] = nullptr;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (const ncclResult_t failed = Begin("ncclCommInitRank"); failed != ncclSuccess) return failed;
  if (ranks < 1 || rank < 0 || rank >= ranks) return Refuse(ncclInvalidArgument, "no such rank");
  if (pending.depth > 0) return Refuse(ncclInvalidUsage, "joins within a group");
  std::shared_ptr<Group> group;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto it = groups.find(std::string(id.internal, strnlen(id.internal, sizeof(id))));
    if (it != groups.end()) {
      if (it->second == nullptr) it->second = std::make_shared<Group>(ranks);
      group = it->second;
    }
  }
  if (group == nullptr || group->ranks != ranks) return Refuse(ncclSystemError, "no such group");
  int device = 0;
  cudaGetDevice(&device);
  std::unique_lock<std::mutex> lock(group->mutex);
  if (group->devices[static_cast<size_t>(rank)] != -1) {
    return Refuse(ncclInvalidUsage, "a rank joins twice");
  }
  group->devices[static_cast<size_t>(rank)] = device;
  ++group->joined;
  group->changed.notify_all();
  group->changed.wait(lock, [&] { return group->joined == ranks; });
  if (std::set<int>(group->devices.begin(), group->devices.end()).size() < group->devices.size()) {
    return Refuse(ncclInvalidUsage, "Duplicate GPU detected");
  }
  *comm = new ncclComm{.group = group, .rank = rank};
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->captured.use_count() > 1) {
    return Refuse(ncclInternalError, "there are graphs with the communicator's operations");
  }
  Group& group = *comm->group;
  {
    std::unique_lock<std::mutex> lock(group.mutex);
    ++group.left;
    group.changed.notify_all();
    group.changed.wait(lock, [&] { return group.left == group.ranks; });
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr) return Refuse(ncclInvalidArgument, "no communicator");
  *error = fail_later;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) {
  const std::lock_guard<std::mutex> lock(mutex);
  thread_local std::string copy;
  copy = last_error;
  return copy.c_str();
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t failed = Begin("ncclAllReduce"); failed != ncclSuccess) return failed;
  for (const void* values : {from, static_cast<const void*>(to)}) {
    const ncclResult_t refused = CheckArguments(values, count, type, comm, stream);
    if (refused != ncclSuccess) return refused;
  }
  if (op != ncclSum) return Refuse(ncclInvalidArgument, "the fake has sums only");
  if (pending.depth > 0) return Refuse(ncclInvalidUsage, "the fake groups transfers only");
  const Call call = {static_cast<const float*>(from), static_cast<float*>(to), count,
                     Captures(stream) ? ++comm->captures : 0};
  return Post(comm, stream, [group = comm->group, rank = comm->rank, call] {
    return RunAllReduce(*group, rank, call);
  });
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (const ncclResult_t failed = Begin("ncclSend"); failed != ncclSuccess) return failed;
  const ncclResult_t refused = CheckArguments(from, count, type, comm, stream);
  if (refused != ncclSuccess) return refused;
  return AddTransfer({.is_send = true,
                      .peer = peer,
                      .call = {.from = static_cast<const float*>(from), .count = count}},
                     comm, stream);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (const ncclResult_t failed = Begin("ncclRecv"); failed != ncclSuccess) return failed;
  const ncclResult_t refused = CheckArguments(to, count, type, comm, stream);
  if (refused != ncclSuccess) return refused;
  return AddTransfer({.peer = peer, .call = {.to = static_cast<float*>(to), .count = count}}, comm,
                     stream);
}

ncclResult_t ncclGroupStart() {
  ++pending.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (pending.depth == 0) return Refuse(ncclInvalidUsage, "a group ends that has not begun");
  if (--pending.depth > 0) return ncclSuccess;
  Pending posted = std::exchange(pending, {});
  if (posted.comm == nullptr) return ncclSuccess;
  for (Transfer& transfer : posted.transfers) {
    if (!Captures(posted.stream)) break;
    transfer.call.capture = ++posted.comm->transfer_captures[{transfer.is_send, transfer.peer}];
  }
  return Post(
      posted.comm, posted.stream,
      [group = posted.comm->group, rank = posted.comm->rank,
       transfers = std::move(posted.transfers)] { return RunTransfers(*group, rank, transfers); });
}

}  // extern "C"
