#include "common/backend/cuda/nccl_communicator.h"

#if __has_include(<nccl.h>)

#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "common/backend/cuda/stream_capture.h"
#include "common/base/check.h"

namespace outrider {
namespace {

// Rank 0 receives the columns of as many rows at a time as fit here, and then copies them to their
// places. As this never grows, gathering frees no memory on one rank only.
constexpr size_t kGatheredBytes = size_t{32} << 20;
constexpr int kGatheredFloats = static_cast<int>(kGatheredBytes / sizeof(float));

// The functions of the library.
struct Nccl {
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRank) init_rank = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;

  std::string Describe(ncclResult_t result) const {
    std::string text = error_string(result);
    const char* const detail = last_error(nullptr);
    if (detail != nullptr && *detail != '\0') text += std::string(" (") + detail + ")";
    return text;
  }
};

Result<Nccl> OpenNccl(const std::string& file) {
  void* const library =
      dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: it has threads
  if (library == nullptr) {
    const char* const reason = dlerror();
    return FailedPrecondition(
        "a model on several CUDA devices needs NVIDIA's NCCL, which cannot be opened (" +
        std::string(reason != nullptr ? reason : file) +
        "); install it (libnccl2) or add its folder to LD_LIBRARY_PATH");
  }
  Nccl nccl;
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr) missing = name;
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(symbol);
  };
  find("ncclGetUniqueId", &nccl.get_unique_id);
  find("ncclCommInitRank", &nccl.init_rank);
  find("ncclCommDestroy", &nccl.destroy);
  find("ncclCommAbort", &nccl.abort);
  find("ncclCommGetAsyncError", &nccl.async_error);
  find("ncclAllReduce", &nccl.all_reduce);
  find("ncclSend", &nccl.send);
  find("ncclRecv", &nccl.receive);
  find("ncclGroupStart", &nccl.group_start);
  find("ncclGroupEnd", &nccl.group_end);
  find("ncclGetErrorString", &nccl.error_string);
  find("ncclGetLastError", &nccl.last_error);
  if (!missing.empty()) {
    return FailedPrecondition(file + " has no " + missing + "; NCCL 2.13 or later is needed");
  }
  return nccl;
}

Status JoinError(const std::string& error, int rank, int ranks) {
  return FailedPrecondition(
      "NCCL, joining as rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": " +
      error +
      "; each rank needs a device of its own, shared memory (/dev/shm; --shm-size of a container) "
      "and a network interface that reaches the others (NCCL_SOCKET_IFNAME); NCCL_DEBUG=WARN in "
      "the environment prints more");
}

class NcclCommunicator final : public Communicator {
 public:
  // Owns `comm` from here on.
  NcclCommunicator(const Nccl& nccl, ncclComm_t comm, int rank, int ranks,
                   std::unique_ptr<CudaBuffer> gathered, CommunicatorHost host)
      : nccl_(nccl),
        comm_(comm),
        rank_(rank),
        ranks_(ranks),
        gathered_(std::move(gathered)),
        host_(std::move(host)) {
    host_.stream->Watch([this] { CheckAsyncError(); });
    host_.graphs->SetFailuresFatal(true);
  }
  ~NcclCommunicator() override {
    host_.graphs->DropAll();
    host_.stream->Wait();
    host_.stream->Watch(nullptr);
    host_.graphs->SetFailuresFatal(false);
    Must(nccl_.destroy(comm_), "leaving the group");
  }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  void AllReduce(float* values, size_t count) override {
    if (count == 0) return;
    host_.before(values);
    Must(nccl_.all_reduce(values, values, count, ncclFloat32, ncclSum, comm_, stream()),
         "adding up");
  }

  void GatherColumns(const float* mine, int rows, int columns, float* all) override {
    OUTRIDER_CHECK(0 < columns && columns <= kGatheredFloats);
    host_.before(rank_ == 0 ? all : nullptr);
    const int at_once = kGatheredFloats / columns;
    for (int first = 0; first < rows; first += at_once) {
      const auto before = static_cast<size_t>(first);
      Gather(mine + before * Width(rank_, columns), std::min(at_once, rows - first), columns,
             rank_ == 0 ? all + before * static_cast<size_t>(columns) : nullptr);
    }
  }

 private:
  cudaStream_t stream() const { return host_.stream->get(); }
  void Must(ncclResult_t result, const char* what) const {
    if (result == ncclSuccess) return;
    const std::string text = std::string("NCCL, ") + what + ": " + nccl_.Describe(result);
    if (StreamCapture::Invalidate(text)) return;
    CheckFailed(text.c_str(), __FILE__, __LINE__);
  }
  void CheckAsyncError() const {
    ncclResult_t state = ncclSuccess;
    Must(nccl_.async_error(comm_, &state), "asking for errors");
    Must(state, "waiting for the other ranks");
  }

  size_t Begin(int rank, int columns) const {
    return static_cast<size_t>(ColumnsOf(rank, ranks_, columns).first);
  }
  size_t Width(int rank, int columns) const {
    return static_cast<size_t>(ColumnsOf(rank, ranks_, columns).count);
  }

  // For as many rows as fit into gathered_, in which each rank's columns are [count, its columns].
  void Gather(const float* mine, int count, int columns, float* all) {
    const auto height = static_cast<size_t>(count);
    auto* const gathered = static_cast<float*>(gathered_->data());
    Must(nccl_.group_start(), "gathering");
    if (rank_ > 0 && Width(rank_, columns) > 0) {
      Must(nccl_.send(mine, height * Width(rank_, columns), ncclFloat32, 0, comm_, stream()),
           "gathering");
    }
    for (int from = 1; rank_ == 0 && from < ranks_; ++from) {
      if (Width(from, columns) == 0) break;
      Must(nccl_.receive(gathered + height * Begin(from, columns), height * Width(from, columns),
                         ncclFloat32, from, comm_, stream()),
           "gathering");
    }
    Must(nccl_.group_end(), "gathering");
    for (int from = 0; rank_ == 0 && from < ranks_; ++from) {
      const size_t bytes = Width(from, columns) * sizeof(float);
      if (bytes == 0) break;
      const float* const source = from == 0 ? mine : gathered + height * Begin(from, columns);
      MustSucceed(cudaMemcpy2DAsync(all + Begin(from, columns),
                                    static_cast<size_t>(columns) * sizeof(float), source, bytes,
                                    bytes, height, cudaMemcpyDeviceToDevice, stream()),
                  "gathering");
    }
  }

  const Nccl nccl_;
  const ncclComm_t comm_;
  const int rank_, ranks_;
  const std::unique_ptr<CudaBuffer> gathered_;
  const CommunicatorHost host_;
};

// The first operation connects the ranks, so that what prevents it is found here. `value` is device
// memory.
ncclResult_t Connect(const Nccl& nccl, ncclComm_t comm, float* value, const Stream& stream) {
  MustSucceed(cudaMemsetAsync(value, 0, sizeof(float), stream.get()), "clearing memory");
  ncclResult_t result = nccl.all_reduce(value, value, 1, ncclFloat32, ncclSum, comm, stream.get());
  if (result != ncclSuccess) return result;
  stream.WaitUnless([&] {
    const ncclResult_t asked = nccl.async_error(comm, &result);
    if (asked != ncclSuccess) result = asked;
    return result != ncclSuccess;
  });
  return result;
}

}  // namespace

Result<std::vector<std::byte>> NewNcclGroup(const std::string& library) {
  OUTRIDER_ASSIGN(const Nccl nccl, OpenNccl(library));
  ncclUniqueId id;
  const ncclResult_t result = nccl.get_unique_id(&id);
  if (result != ncclSuccess) {
    return FailedPrecondition("NCCL, making a group: " + nccl.Describe(result) +
                              "; NCCL_SOCKET_IFNAME chooses the network interface, and "
                              "NCCL_DEBUG=WARN in the environment prints more");
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(&id);
  return std::vector<std::byte>(bytes, bytes + sizeof(id));
}

Result<std::unique_ptr<CudaBuffer>> PrepareNcclGroup(const std::string& library, int rank,
                                                     int ranks) {
  OUTRIDER_TRY(OpenNccl(library).status());
  // Freed after all graphs that refer to it.
  return CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs,
                              rank == 0 && ranks > 1 ? kGatheredBytes : sizeof(float), nullptr);
}

Result<std::unique_ptr<Communicator>> JoinNcclGroup(const std::string& library,
                                                    std::span<const std::byte> group, int rank,
                                                    int ranks, std::unique_ptr<CudaBuffer> gathered,
                                                    CommunicatorHost host) {
  ncclUniqueId id;
  if (group.size() != sizeof(id)) {
    return InvalidArgument("the identifier of a group has " + std::to_string(group.size()) +
                           " bytes, NCCL's have " + std::to_string(sizeof(id)));
  }
  if (rank < 0 || rank >= ranks) {
    return InvalidArgument("there is no rank " + std::to_string(rank) + " in a group of " +
                           std::to_string(ranks));
  }
  std::memcpy(&id, group.data(), sizeof(id));
  OUTRIDER_ASSIGN(const Nccl nccl, OpenNccl(library));
  ncclComm_t comm = nullptr;
  ncclResult_t result = nccl.init_rank(&comm, ranks, id, rank);
  if (result != ncclSuccess) return JoinError(nccl.Describe(result), rank, ranks);
  result = Connect(nccl, comm, static_cast<float*>(gathered->data()), *host.stream);
  if (result != ncclSuccess) {
    const Status error = JoinError(nccl.Describe(result), rank, ranks);
    (void)nccl.abort(comm);
    return error;
  }
  return std::unique_ptr<Communicator>(std::make_unique<NcclCommunicator>(
      nccl, comm, rank, ranks, std::move(gathered), std::move(host)));
}

}  // namespace outrider

#else

namespace outrider {
namespace {

Status NoHeader() {
  return Unimplemented(
      "a model on several CUDA devices: this backend was built without NCCL (<nccl.h>)");
}

}  // namespace

Result<std::vector<std::byte>> NewNcclGroup(const std::string&) { return NoHeader(); }

Result<std::unique_ptr<CudaBuffer>> PrepareNcclGroup(const std::string&, int, int) {
  return NoHeader();
}

Result<std::unique_ptr<Communicator>> JoinNcclGroup(const std::string&, std::span<const std::byte>,
                                                    int, int, std::unique_ptr<CudaBuffer>,
                                                    CommunicatorHost) {
  return NoHeader();
}

}  // namespace outrider

#endif
