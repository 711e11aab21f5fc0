#include "common/base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "common/base/input_file.h"

namespace outrider {

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  OUTRIDER_ASSIGN(const InputFile file, InputFile::Open(path));
  const size_t size = file.size();
  if (size == 0) return MappedFile(nullptr, 0);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data == MAP_FAILED) {
    return ResourceExhausted(path.string() + ": cannot be mapped: " + std::strerror(errno));
  }
  return MappedFile(static_cast<const std::byte*>(data), size);
}

void MappedFile::DropPages(std::span<const std::byte> part) {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  // Only whole pages.
  const size_t before = (page - reinterpret_cast<uintptr_t>(part.data()) % page) % page;
  if (before >= part.size()) return;
  const size_t bytes = (part.size() - before) / page * page;
  if (bytes == 0) return;
  (void)madvise(const_cast<std::byte*>(part.data()) + before, bytes, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace outrider
