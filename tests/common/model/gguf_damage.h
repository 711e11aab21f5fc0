// Changes GGUF files, to see how loading fails.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include "common/base/status.h"

namespace outrider {

// The status of loading the whole file after `change`, which is undone.
Status LoadChanged(const std::filesystem::path& file,
                   const std::function<void(std::string& bytes)>& change);
// The error's message for a file in which the first `from` became `to`, of the same length.
std::string WordsOf(const std::filesystem::path& file, const std::string& from,
                    const std::string& to);
// Where the tensor's bytes begin in the file's.
size_t PlaceOf(const std::string& bytes, const std::string& tensor);

}  // namespace outrider
