// Reads files written by others: weights, configuration, tokens, certificates, prompts. By default
// only regular files are opened: a FIFO, a terminal or a device of that name would block the reader
// until somebody writes to it.
//
// Thread: the owner.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include "common/base/file_descriptor.h"
#include "common/base/status.h"

namespace outrider {

enum class InputKind {
  kRegular,
  kAny,  // also pipes and terminals, for which a user on the command line is willing to wait
};

class InputFile {
 public:
  // kNotFound: there is not such a file. kPermissionDenied or kUnavailable: it cannot be opened.
  // kInvalidArgument: it is a directory or not of this kind.
  static Result<InputFile> Open(const std::filesystem::path& path,
                                InputKind kind = InputKind::kRegular);

  int descriptor() const { return descriptor_.get(); }
  // In bytes, when it was opened.
  size_t size() const { return size_; }
  // Reads the next `count` bytes, fewer only at the end of the file, and returns their number.
  // kDataLoss: reading failed.
  Result<size_t> Read(char* out, size_t count);

 private:
  InputFile(FileDescriptor descriptor, size_t size, std::string path)
      : descriptor_(std::move(descriptor)), size_(size), path_(std::move(path)) {}

  FileDescriptor descriptor_;
  size_t size_;
  std::string path_;
};

// The whole file. kInvalidArgument: it has more than `max_bytes`; also the errors of InputFile.
Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes,
                             InputKind kind = InputKind::kRegular);

// Limits for files whose readers have no tighter one.
inline constexpr size_t kMaxTextFileBytes = size_t{16} << 20;   // tokens, certificates, addresses
inline constexpr size_t kMaxPromptFileBytes = size_t{1} << 30;  // prompts and data of the client

}  // namespace outrider
