// Writes files that replace older ones: a reader, also after a crash, finds the old file or the
// whole new one.
//
// Thread: any, but one writer of a path at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

#include "common/base/status.h"

namespace outrider {

// Calls `write` with the stream of a new file, `path`.new, and renames it to `path`. What exists
// and is not a regular file (a device, a FIFO) is written directly, because a file must not take
// its place. kUnavailable: not everything could be written; the old file is unchanged, and the new
// one is removed.
Status ReplaceFile(const std::filesystem::path& path,
                   const std::function<void(std::ostream&)>& write);

}  // namespace outrider
