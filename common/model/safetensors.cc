#include "common/model/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/base/printable.h"
#include "common/model/json_file.h"

namespace outrider {
namespace {

constexpr size_t kLengthBytes = 8;
// A hundred thousand tensors take about 12 MB.
constexpr uint64_t kMaxHeaderBytes = 32 << 20;
constexpr size_t kMaxIndexMebibytes = 32;
constexpr size_t kMaxRank = 8;

std::optional<uint64_t> ElementBytes(const std::string& dtype) {
  static const std::map<std::string, uint64_t> kBytes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
      {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  const auto found = kBytes.find(dtype);
  if (found == kBytes.end()) return std::nullopt;
  return found->second;
}

std::optional<uint64_t> Unsigned(const nlohmann::json& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  return json.get<uint64_t>();
}

const nlohmann::json* Member(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// One tensor's header entry. `where` names the file and the tensor.
Result<SafetensorsEntry> ParseEntry(const nlohmann::json& json, std::span<const std::byte> data,
                                    const std::string& where) {
  if (!json.is_object()) return InvalidArgument(where + ": not an object");
  SafetensorsEntry entry;

  const nlohmann::json* dtype = Member(json, "dtype");
  if (dtype == nullptr || !dtype->is_string()) return InvalidArgument(where + ": no dtype");
  entry.dtype = dtype->get<std::string>();
  const std::optional<uint64_t> element_bytes = ElementBytes(entry.dtype);
  if (!element_bytes) return Unimplemented(where + ": unknown dtype " + Printable(entry.dtype));

  const nlohmann::json* shape = Member(json, "shape");
  if (shape == nullptr || !shape->is_array() || shape->size() > kMaxRank) {
    return InvalidArgument(where + ": shape is not an array of at most " +
                           std::to_string(kMaxRank) + " sizes");
  }
  uint64_t bytes = *element_bytes;
  for (const nlohmann::json& dimension : *shape) {
    const std::optional<uint64_t> size = Unsigned(dimension);
    if (!size || *size > INT64_MAX)
      return InvalidArgument(where + ": a size in shape is senseless");
    if (__builtin_mul_overflow(bytes, *size, &bytes)) {
      return InvalidArgument(where + ": shape overflows");
    }
    entry.shape.push_back(static_cast<int64_t>(*size));
  }

  const nlohmann::json* offsets = Member(json, "data_offsets");
  if (offsets == nullptr || !offsets->is_array() || offsets->size() != 2) {
    return InvalidArgument(where + ": data_offsets is not a pair");
  }
  const std::optional<uint64_t> begin = Unsigned((*offsets)[0]);
  const std::optional<uint64_t> end = Unsigned((*offsets)[1]);
  if (!begin || !end || *begin > *end) {
    return InvalidArgument(where + ": data_offsets are not an ascending pair");
  }
  if (*end - *begin != bytes) {
    return InvalidArgument(where + ": data_offsets span " + std::to_string(*end - *begin) +
                           " bytes, shape and dtype ask for " + std::to_string(bytes));
  }
  if (*end > data.size()) {
    return DataLoss(where + ": ends at byte " + std::to_string(*end) +
                    " of the data, the file has " + std::to_string(data.size()));
  }
  entry.bytes = data.subspan(*begin, bytes);
  return entry;
}

// The format has neither gaps nor overlaps.
Status CheckTiling(std::vector<SafetensorsEntry>& entries, std::span<const std::byte> data,
                   const std::string& where) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    if (a.bytes.data() != b.bytes.data()) return a.bytes.data() < b.bytes.data();
    return a.bytes.size() < b.bytes.size();
  });
  const std::byte* expected = data.data();
  for (const SafetensorsEntry& entry : entries) {
    if (entry.bytes.data() != expected) {
      return InvalidArgument(where + ": " + Printable(entry.name) +
                             (entry.bytes.data() < expected ? ": overlaps the tensor before it"
                                                            : ": a gap lies before it"));
    }
    expected += entry.bytes.size();
  }
  const auto rest = static_cast<size_t>(data.data() + data.size() - expected);
  if (rest > 0) {
    return InvalidArgument(where + ": " + std::to_string(rest) + " bytes behind the last tensor");
  }
  return Status();
}

// A shard's name must stay in the model's directory.
bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find_first_of("/\\") == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Tensor name -> shard.
Result<std::map<std::string, std::string>> ReadIndex(const std::filesystem::path& path) {
  OUTRIDER_ASSIGN(const nlohmann::json index, ReadJsonObject(path, kMaxIndexMebibytes));
  const nlohmann::json* weight_map = Member(index, "weight_map");
  if (weight_map == nullptr || !weight_map->is_object() || weight_map->empty()) {
    return InvalidArgument(path.string() + ": no weight_map");
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : weight_map->items()) {
    if (!shard.is_string() || !IsPlainFileName(shard.get_ref<const std::string&>())) {
      return InvalidArgument(path.string() + ": " + Printable(tensor) +
                             ": the shard is not the name of a file in the directory");
    }
    shard_of[tensor] = shard.get<std::string>();
  }
  return shard_of;
}

Status CheckShards(const std::filesystem::path& directory, const std::set<std::string>& shards) {
  std::error_code ignored;
  std::string first;
  int missing = 0;
  for (const std::string& shard : shards) {
    if (std::filesystem::exists(directory / shard, ignored)) continue;
    if (missing++ == 0) first = shard;
  }
  if (missing == 0) return Status();
  return NotFound(directory.string() + ": " + std::to_string(missing) + " of the " +
                  std::to_string(shards.size()) +
                  " files that model.safetensors.index.json lists are missing, the first of them " +
                  Printable(first) + "; the download is not complete");
}

}  // namespace

Result<std::vector<SafetensorsEntry>> ParseSafetensors(std::span<const std::byte> file,
                                                       const std::string& where) {
  if (file.size() < kLengthBytes) {
    return DataLoss(where + ": " + std::to_string(file.size()) + " bytes, no header length");
  }
  uint64_t header_bytes = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    header_bytes = header_bytes << 8 | std::to_integer<uint64_t>(file[i]);
  }
  if (header_bytes > kMaxHeaderBytes) {
    return InvalidArgument(where + ": a header of " + std::to_string(header_bytes) +
                           " bytes, more than " + std::to_string(kMaxHeaderBytes));
  }
  if (header_bytes > file.size() - kLengthBytes) {
    return DataLoss(where + ": ends within its header of " + std::to_string(header_bytes) +
                    " bytes");
  }
  const auto header = file.subspan(kLengthBytes, header_bytes);
  const auto data = file.subspan(kLengthBytes + header_bytes);
  OUTRIDER_ASSIGN(const nlohmann::json json,
                  ParseJsonObject({reinterpret_cast<const char*>(header.data()), header.size()},
                                  where + ": header"));

  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    OUTRIDER_ASSIGN(SafetensorsEntry entry,
                    ParseEntry(value, data, where + ": " + Printable(name)));
    entry.name = name;
    entries.push_back(std::move(entry));
  }
  OUTRIDER_TRY(CheckTiling(entries, data, where));
  return entries;
}

int64_t Checkpoint::bytes() const {
  int64_t sum = 0;
  for (const auto& [name, entry] : entries_) sum += static_cast<int64_t>(entry.bytes.size());
  return sum;
}

Status Checkpoint::AddFile(const std::filesystem::path& path) {
  OUTRIDER_ASSIGN(MappedFile file, MappedFile::Open(path));
  OUTRIDER_ASSIGN(std::vector<SafetensorsEntry> entries,
                  ParseSafetensors(file.bytes(), path.string()));
  for (SafetensorsEntry& entry : entries) {
    const std::string name = entry.name;
    if (!entries_.emplace(name, std::move(entry)).second) {
      return InvalidArgument(path.string() + ": " + Printable(name) +
                             ": stands in another shard too");
    }
  }
  files_.push_back(std::move(file));
  return Status();
}

Result<Checkpoint> Checkpoint::Open(const std::filesystem::path& directory) {
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  const std::filesystem::path single = directory / "model.safetensors";
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  std::error_code ignored;
  if (std::filesystem::exists(single, ignored)) {
    OUTRIDER_TRY(checkpoint.AddFile(single));
    return checkpoint;
  }
  if (!std::filesystem::exists(index, ignored)) {
    return NotFound(directory.string() + ": no model.safetensors and no " +
                    index.filename().string());
  }
  using ShardOf = std::map<std::string, std::string>;
  OUTRIDER_ASSIGN(const ShardOf shard_of, ReadIndex(index));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
  OUTRIDER_TRY(CheckShards(directory, shards));
  for (const std::string& shard : shards) OUTRIDER_TRY(checkpoint.AddFile(directory / shard));
  for (const auto& [tensor, shard] : shard_of) {
    if (!checkpoint.Has(tensor)) {
      return InvalidArgument(index.string() + ": " + Printable(tensor) + ": not in " +
                             Printable(shard));
    }
  }
  return checkpoint;
}

Result<TensorView> Checkpoint::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return NotFound(directory_.string() + ": no tensor " + name);
  const SafetensorsEntry& entry = found->second;
  TensorView view;
  if (entry.dtype == "F32") {
    view.dtype = Dtype::kF32;
  } else if (entry.dtype == "F16") {
    view.dtype = Dtype::kF16;
  } else if (entry.dtype == "BF16") {
    view.dtype = Dtype::kBf16;
  } else {
    return Unimplemented(directory_.string() + ": " + name + " is " + entry.dtype +
                         "; weights are read as F32, F16 or BF16");
  }
  view.data = entry.bytes.data();
  view.shape = entry.shape;
  return view;
}

}  // namespace outrider
