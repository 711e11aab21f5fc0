#include "common/ranks/shared_communicator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "common/base/check.h"

namespace outrider {
namespace {

constexpr size_t kHeaderBytes = 4096;  // of the barrier, on a page of its own
static_assert(sizeof(pthread_barrier_t) <= kHeaderBytes);
constexpr int kPlaces = 2;

size_t RegionBytes(int ranks, size_t floats) {
  return kHeaderBytes + static_cast<size_t>(kPlaces * ranks) * floats * sizeof(float);
}

Status Failed(const char* what) {
  return ResourceExhausted(std::string("shared memory of the ranks: ") + what + ": " +
                           std::strerror(errno));
}

Result<void*> Map(int region, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region, 0);
  if (memory == MAP_FAILED) return Failed("mmap");
  return memory;
}

}  // namespace

Result<FileDescriptor> SharedCommunicator::CreateRegion(int ranks, size_t floats) {
  FileDescriptor region(memfd_create("outrider-ranks", MFD_CLOEXEC));
  if (region.get() < 0) return Failed("memfd_create");
  const size_t bytes = RegionBytes(ranks, floats);
  if (ftruncate(region.get(), static_cast<off_t>(bytes)) != 0) return Failed("ftruncate");
  OUTRIDER_ASSIGN(void* const memory, Map(region.get(), kHeaderBytes));
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  const int error = pthread_barrier_init(static_cast<pthread_barrier_t*>(memory), &attributes,
                                         static_cast<unsigned>(ranks));
  OUTRIDER_CHECK(error == 0);
  pthread_barrierattr_destroy(&attributes);
  munmap(memory, kHeaderBytes);
  return region;
}

Result<std::unique_ptr<SharedCommunicator>> SharedCommunicator::Open(int region, int rank,
                                                                     int ranks, size_t floats) {
  OUTRIDER_ASSIGN(void* const memory, Map(region, RegionBytes(ranks, floats)));
  return std::unique_ptr<SharedCommunicator>(new SharedCommunicator(memory, rank, ranks, floats));
}

SharedCommunicator::~SharedCommunicator() { munmap(region_, RegionBytes(ranks_, floats_)); }

float* SharedCommunicator::PartOf(int rank) const {
  auto* const first = reinterpret_cast<float*>(static_cast<std::byte*>(region_) + kHeaderBytes);
  return first + static_cast<size_t>(place_ * ranks_ + rank) * floats_;
}

void SharedCommunicator::Exchange(const float* mine, size_t count) {
  OUTRIDER_CHECK(count <= floats_);
  place_ = (place_ + 1) % kPlaces;
  std::copy_n(mine, count, PartOf(rank_));
  pthread_barrier_wait(static_cast<pthread_barrier_t*>(region_));
}

void SharedCommunicator::AllReduce(float* values, size_t count) {
  Exchange(values, count);
  std::copy_n(PartOf(0), count, values);
  for (int rank = 1; rank < ranks_; ++rank) {
    const float* const part = PartOf(rank);
    for (size_t i = 0; i < count; ++i) values[i] += part[i];
  }
}

void SharedCommunicator::GatherColumns(const float* mine, int rows, int columns, float* all) {
  const auto height = static_cast<size_t>(rows);
  Exchange(mine, height * static_cast<size_t>(ColumnsOf(rank_, ranks_, columns).count));
  if (rank_ != 0) return;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Range own = ColumnsOf(rank, ranks_, columns);
    const auto width = static_cast<size_t>(own.count);
    for (size_t row = 0; row < height; ++row) {
      std::copy_n(PartOf(rank) + row * width, width,
                  all + row * static_cast<size_t>(columns) + own.first);
    }
  }
}

}  // namespace outrider
