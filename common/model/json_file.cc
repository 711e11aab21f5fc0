#include "common/model/json_file.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "common/base/printable.h"
#include "common/model/mapped_file.h"

namespace outrider {
namespace {

// The library copies, compares and prints by recursion; no file of a model needs more than six.
constexpr int kMaxDepth = 32;

}  // namespace

Result<nlohmann::json> ParseJsonObject(std::string_view text, const std::string& where) {
  using Json = nlohmann::json;
  std::vector<std::unordered_set<std::string>> open_objects;
  std::string duplicate;
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) {
      too_deep = true;
      return false;
    }
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(name).second && duplicate.empty()) duplicate = name;
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument(where + ": not valid JSON");
  if (too_deep) return InvalidArgument(where + ": nested too deeply");
  if (!json.is_object()) return InvalidArgument(where + ": not a JSON object");
  if (!duplicate.empty()) {
    return InvalidArgument(where + ": \"" + Printable(duplicate) + "\" stands twice");
  }
  return json;
}

Result<nlohmann::json> ReadJsonObject(const std::filesystem::path& path, size_t max_mebibytes) {
  OUTRIDER_ASSIGN(const MappedFile file, MappedFile::Open(path));
  const auto bytes = file.bytes();
  if (bytes.size() > max_mebibytes << 20) {
    return InvalidArgument(path.string() + ": " + std::to_string(bytes.size()) +
                           " bytes, more than " + std::to_string(max_mebibytes) + " MiB");
  }
  return ParseJsonObject({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                         path.string());
}

}  // namespace outrider
