// Reads files that somebody else wrote: weights, configuration, tokens, certificates, prompts. By
// default only regular files are opened, and never waited for: a FIFO, a terminal or a device under
// the name would stop the reader until somebody writes to it.
//
// Thread: the owner.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "common/base/status.h"

namespace outrider {

enum class InputKind {
  kRegular,
  kAny,  // pipes and terminals too: whoever names them on a command line waits for them
};

class InputFile {
 public:
  // kNotFound when there is no such file, kPermissionDenied or kUnavailable when it cannot be
  // opened, kInvalidArgument when it is not of the kind, or a directory.
  static Result<InputFile> Open(const std::filesystem::path& path,
                                InputKind kind = InputKind::kRegular);

  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  int descriptor() const { return descriptor_; }
  // In bytes, when it was opened.
  size_t size() const { return size_; }
  // Reads the next `count` bytes, fewer only at the file's end; returns how many there were.
  // kDataLoss when reading fails.
  Result<size_t> Read(char* out, size_t count);

 private:
  InputFile(int descriptor, size_t size, std::string path);

  int descriptor_;
  size_t size_;
  std::string path_;
};

// The whole file. kInvalidArgument for one of more than `max_bytes`, besides the errors of
// InputFile.
Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes,
                             InputKind kind = InputKind::kRegular);

// Limits for files whose readers have no closer one.
inline constexpr size_t kMaxTextFileBytes = size_t{16} << 20;   // tokens, certificates, addresses
inline constexpr size_t kMaxPromptFileBytes = size_t{1} << 30;  // prompts and data of the client

}  // namespace outrider
