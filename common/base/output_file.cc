#include "common/base/output_file.h"

#include <fstream>
#include <system_error>

namespace outrider {
namespace {

bool IsDeviceOrFifo(const std::filesystem::path& path) {
  std::error_code unknown;
  const std::filesystem::file_status found = std::filesystem::status(path, unknown);
  return std::filesystem::exists(found) && !std::filesystem::is_regular_file(found) &&
         !std::filesystem::is_directory(found);
}

}  // namespace

Status ReplaceFile(const std::filesystem::path& path,
                   const std::function<void(std::ostream&)>& write) {
  std::filesystem::path fresh = path;
  if (!IsDeviceOrFifo(path)) fresh += ".new";
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  if (!out.is_open()) return Unavailable(fresh.string() + ": cannot be written");
  write(out);
  out.close();
  if (fresh == path) {
    return out ? Status() : Unavailable(path.string() + ": cannot be written in full");
  }
  std::error_code failure, ignored;
  if (out) std::filesystem::rename(fresh, path, failure);
  if (out && !failure) return Status();
  std::filesystem::remove(fresh, ignored);
  return Unavailable(out ? path.string() + ": " + failure.message()
                         : fresh.string() + ": cannot be written in full");
}

}  // namespace outrider
