#include "common/trace/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace outrider {
namespace {

Status Failed(const std::string& path, int error) {
  return Unavailable(path + ": " + std::strerror(error));
}

}  // namespace

Result<std::unique_ptr<TraceFile>> TraceFile::Open(const std::string& path, uint64_t max_bytes) {
  std::unique_ptr<TraceFile> file(new TraceFile(path, max_bytes));
  OUTRIDER_TRY(file->Reopen());
  return file;
}

Status TraceFile::Reopen() {
  // Not readable by everybody, because it shows who asked for how much and when.
  constexpr mode_t kMode = 0640;
  // O_NONBLOCK: opening a FIFO must not wait for a reader.
  FileDescriptor file(
      open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, kMode));
  if (file.get() < 0 && errno == ENXIO)
    return InvalidArgument(path_ + " is not a regular file");  // a FIFO
  if (file.get() < 0) return Failed(path_, errno);
  struct stat stat {};
  if (fstat(file.get(), &stat) != 0 || !S_ISREG(stat.st_mode)) {
    return InvalidArgument(path_ + " is not a regular file");
  }
  file_ = std::move(file);
  bytes_ = static_cast<uint64_t>(stat.st_size);
  return Status();
}

Status TraceFile::Append(std::string line) {
  line += '\n';
  if (line.size() > bytes_of_each_) {
    return ResourceExhausted(path_ + ": a line of " + std::to_string(line.size()) +
                             " bytes is more than the file may hold");
  }
  if (bytes_ + line.size() > bytes_of_each_) {
    // If the file is gone (somebody moved it), there is nothing to keep.
    if (std::rename(path_.c_str(), (path_ + ".1").c_str()) != 0 && errno != ENOENT) {
      return Failed(path_, errno);
    }
    OUTRIDER_TRY(Reopen());
  }
  for (size_t done = 0; done < line.size();) {
    const ssize_t written = write(file_.get(), line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      if (done > 0 && ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) {
        return Failed(path_ + ": half a line is left", errno);
      }
      return Failed(path_, error);
    }
    done += static_cast<size_t>(written);
  }
  bytes_ += line.size();
  return Status();
}

}  // namespace outrider
