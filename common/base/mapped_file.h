// A file mapped into memory for reading. The owner must keep it alive while views into it exist. If
// a file shrinks while it is mapped, accessing it raises SIGBUS: replace weight files, do not edit
// them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "common/base/status.h"

namespace outrider {

class MappedFile {
 public:
  // kNotFound: there is no such file. kInvalidArgument: it is not a regular file.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Lets the kernel reclaim the memory of `part`, a part of such a mapping; it is read from the
  // file again when accessed.
  static void DropPages(std::span<const std::byte> part);

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}

  const std::byte* data_ = nullptr;  // nullptr: an empty file
  size_t size_ = 0;
};

}  // namespace outrider
