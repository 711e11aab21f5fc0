// A file mapped into memory for reading. The owner keeps it alive as long as views into it live.
// A file that shrinks while it is mapped raises SIGBUS on access: replace weights, do not edit
// them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "common/base/status.h"

namespace outrider {

class MappedFile {
 public:
  // kNotFound without such a file, kInvalidArgument when it is not a regular one.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Lets the kernel take back the memory of `part`, a part of such a mapping: it is read from the
  // file again when it is touched.
  static void Forget(std::span<const std::byte> part);

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}

  const std::byte* data_ = nullptr;  // nullptr: an empty file
  size_t size_ = 0;
};

}  // namespace outrider
