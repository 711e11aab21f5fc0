// Strict reading of the JSON that comes with a model.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

// Parses one JSON object. kInvalidArgument for anything else and for a name that stands twice in an
// object: readers differ in which of the two they believe. `where` begins the messages.
Result<nlohmann::json> ParseJsonObject(std::string_view text, const std::string& where);

// The same of a whole file, at most `max_mebibytes` MiB long.
Result<nlohmann::json> ReadJsonObject(const std::filesystem::path& path, size_t max_mebibytes);

}  // namespace outrider
