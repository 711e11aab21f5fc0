#include "common/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace outrider {

Result<InputFile> InputFile::Open(const std::filesystem::path& path, InputKind kind) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer. Regular files ignore the flag.
  const int wait = kind == InputKind::kAny ? 0 : O_NONBLOCK;
  FileDescriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | wait));
  if (descriptor.get() < 0) {
    const Code code = errno == ENOENT || errno == ENOTDIR ? Code::kNotFound
                      : errno == EACCES || errno == EPERM ? Code::kPermissionDenied
                                                          : Code::kUnavailable;
    return Status(code, path.string() + ": cannot be read: " + std::strerror(errno));
  }
  struct stat info = {};
  if (fstat(descriptor.get(), &info) != 0) {
    return Internal(path.string() + ": " + std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode) || (kind == InputKind::kRegular && !S_ISREG(info.st_mode))) {
    const char* found = S_ISDIR(info.st_mode)    ? "is a directory"
                        : S_ISFIFO(info.st_mode) ? "is a FIFO"
                        : S_ISSOCK(info.st_mode) ? "is a socket"
                                                 : "is a device";
    return InvalidArgument(path.string() + ": " + found + ", not a regular file");
  }
  return InputFile(std::move(descriptor), static_cast<size_t>(info.st_size), path.string());
}

Result<size_t> InputFile::Read(char* out, size_t count) {
  size_t done = 0;
  while (done < count) {
    const ssize_t got = read(descriptor_.get(), out + done, count - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return DataLoss(path_ + ": reading failed: " + std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes, InputKind kind) {
  OUTRIDER_ASSIGN(InputFile file, InputFile::Open(path, kind));
  if (file.size() > max_bytes) {
    return InvalidArgument(path.string() + ": " + std::to_string(file.size()) + " bytes, at most " +
                           std::to_string(max_bytes) + " are read");
  }
  // One byte more shows whether it has grown meanwhile; pipes and files in /proc report no size.
  std::string text(file.size() + 1, '\0');
  size_t size = 0;
  while (true) {
    OUTRIDER_ASSIGN(const size_t got, file.Read(text.data() + size, text.size() - size));
    size += got;
    if (size < text.size()) break;
    if (size > max_bytes) {
      return InvalidArgument(path.string() + ": at most " + std::to_string(max_bytes) +
                             " bytes are read");
    }
    text.resize(max_bytes / 2 < text.size() ? max_bytes + 1 : text.size() * 2);
  }
  text.resize(size);
  return text;
}

}  // namespace outrider
