#include "common/model/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "common/base/printable.h"
#include "common/json/json.h"
#include "common/model/gguf_tensors.h"

namespace outrider {
namespace {

constexpr size_t kLengthBytes = 8;
// A hundred thousand tensors take about 12 MB.
constexpr uint64_t kMaxHeaderBytes = 32 << 20;
constexpr size_t kMaxIndexBytes = 32 << 20;
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

// One tensor's entry of the header.
Result<SafetensorsEntry> ParseEntry(const JsonValue& json, std::span<const std::byte> data) {
  OUTRIDER_TRY(json.MustBeObject());
  SafetensorsEntry entry;
  OUTRIDER_ASSIGN(entry.dtype, json["dtype"].String());
  const std::optional<uint64_t> element_bytes = ElementBytes(entry.dtype);
  if (!element_bytes) return json["dtype"].Unsupported();

  const JsonValue shape = json["shape"];
  if (!shape.is_array() || shape.size() > kMaxRank) {
    return shape.Wrong("an array of at most " + std::to_string(kMaxRank) + " sizes");
  }
  uint64_t bytes = *element_bytes;
  for (size_t i = 0; i < shape.size(); ++i) {
    OUTRIDER_ASSIGN(const int64_t size, shape[i].Int64(0, INT64_MAX));
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      return shape.Error("overflows");
    }
    entry.shape.push_back(size);
  }

  const JsonValue offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) return offsets.Wrong("a pair");
  OUTRIDER_ASSIGN(const int64_t begin, offsets[0].Int64(0, INT64_MAX));
  OUTRIDER_ASSIGN(const int64_t end, offsets[1].Int64(begin, INT64_MAX));
  if (static_cast<uint64_t>(end - begin) != bytes) {
    return offsets.Error("span " + std::to_string(end - begin) +
                         " bytes, shape and dtype ask for " + std::to_string(bytes));
  }
  if (static_cast<uint64_t>(end) > data.size()) {
    return DataLoss(offsets.path() + ": ends at byte " + std::to_string(end) +
                    " of the data, the file has " + std::to_string(data.size()));
  }
  entry.bytes = data.subspan(static_cast<size_t>(begin), bytes);
  return entry;
}

// Checks that there are neither gaps nor overlaps, as the format requires.
Status CheckTiling(std::vector<SafetensorsEntry>& entries, std::span<const std::byte> data) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    if (a.bytes.data() != b.bytes.data()) return a.bytes.data() < b.bytes.data();
    return a.bytes.size() < b.bytes.size();
  });
  const std::byte* expected = data.data();
  for (const SafetensorsEntry& entry : entries) {
    if (entry.bytes.data() != expected) {
      return InvalidArgument(Printable(entry.name) + (entry.bytes.data() < expected
                                                          ? ": overlaps the tensor before it"
                                                          : ": a gap lies before it"));
    }
    expected += entry.bytes.size();
  }
  const auto rest = static_cast<size_t>(data.data() + data.size() - expected);
  if (rest > 0) {
    return InvalidArgument(std::to_string(rest) + " bytes after the last tensor");
  }
  return Status();
}

// A shard's name must not lead out of the model's directory.
bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find_first_of("/\\") == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// Tensor name to shard.
Result<std::map<std::string, std::string>> ReadIndex(const std::filesystem::path& path) {
  OUTRIDER_ASSIGN(const JsonValue index, ReadJsonObject(path, {.bytes = kMaxIndexBytes}));
  const JsonValue weight_map = index["weight_map"];
  if (!weight_map.is_object() || weight_map.size() == 0) {
    return weight_map.Wrong("an object of files by tensor, with at least one");
  }
  std::map<std::string, std::string> shard_of;
  OUTRIDER_TRY(weight_map.ForEachMember([&](const std::string& tensor, const JsonValue& shard) {
    if (!IsPlainFileName(shard.text())) return shard.Wrong("the name of a file in the directory");
    shard_of[tensor] = shard.text();
    return Status();
  }));
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

Result<std::vector<SafetensorsEntry>> ParseFile(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    return DataLoss(std::to_string(file.size()) + " bytes, no header length");
  }
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (std::string_view(reinterpret_cast<const char*>(file.data()), file.size())
          .starts_with(kPointer)) {
    return InvalidArgument("a pointer of Git LFS, not the weights; fetch them with git lfs pull");
  }
  uint64_t header_bytes = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    header_bytes = header_bytes << 8 | std::to_integer<uint64_t>(file[i]);
  }
  if (header_bytes > kMaxHeaderBytes) {
    return InvalidArgument("a header of " + std::to_string(header_bytes) + " bytes, more than " +
                           std::to_string(kMaxHeaderBytes));
  }
  if (header_bytes > file.size() - kLengthBytes) {
    return DataLoss("ends within its header of " + std::to_string(header_bytes) + " bytes");
  }
  const auto header = file.subspan(kLengthBytes, header_bytes);
  const auto data = file.subspan(kLengthBytes + header_bytes);
  OUTRIDER_ASSIGN(
      const JsonValue json,
      ParseJsonObject({reinterpret_cast<const char*>(header.data()), header.size()}, "the header"));
  std::vector<SafetensorsEntry> entries;
  OUTRIDER_TRY(json.ForEachMember([&](const std::string& name, const JsonValue& value) -> Status {
    if (name == "__metadata__") return Status();
    OUTRIDER_ASSIGN(SafetensorsEntry entry, ParseEntry(value, data));
    entry.name = name;
    entries.push_back(std::move(entry));
    return Status();
  }));
  OUTRIDER_TRY(CheckTiling(entries, data));
  return entries;
}

}  // namespace

Result<std::vector<SafetensorsEntry>> ParseSafetensors(std::span<const std::byte> file,
                                                       const std::string& where) {
  Result<std::vector<SafetensorsEntry>> entries = ParseFile(file);
  if (!entries.ok()) return entries.status().Annotate(where);
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
      return InvalidArgument(path.string() + ": " + Printable(name) + ": is in another shard too");
    }
  }
  files_.push_back(std::move(file));
  return Status();
}

Status Checkpoint::AddGguf(const std::filesystem::path& path) {
  OUTRIDER_ASSIGN(gguf_, GgufFile::Open(path));
  OUTRIDER_ASSIGN(std::vector<GgufEntry> entries, GgufEntries(*gguf_));
  for (GgufEntry& entry : entries) {
    OUTRIDER_TRY(CheckRows(entry).Annotate(path.string()));
    const GgufTensor& tensor = entry.tensor;
    entries_[entry.name] = {.name = tensor.name,
                            .dtype = GgmlTypeName(tensor.type),
                            .shape = tensor.shape,
                            .bytes = tensor.bytes};
    const std::string name = entry.name;
    gguf_entries_[name] = std::move(entry);
  }
  return Status();
}

Result<Checkpoint> Checkpoint::Open(const std::filesystem::path& directory) {
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  if (const auto gguf = FindGgufModel(directory); gguf.has_value()) {
    OUTRIDER_TRY(checkpoint.AddGguf(*gguf));
    return checkpoint;
  }
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

const SafetensorsEntry* Checkpoint::Entry(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<TensorView> Checkpoint::Find(const std::string& name) const {
  const SafetensorsEntry* const found = Entry(name);
  if (found == nullptr) return NotFound(directory_.string() + ": no tensor " + name);
  const SafetensorsEntry& entry = *found;
  TensorView view;
  if (const GgufEntry* const gguf = Gguf(name); gguf != nullptr && !IsPlain(*gguf)) {
    return Unimplemented(directory_.string() + ": " + found->name + " is " + entry.dtype +
                         ", with rows in another order or in blocks; it has no view");
  }
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

const GgufEntry* Checkpoint::Gguf(const std::string& name) const {
  const auto found = gguf_entries_.find(name);
  return found == gguf_entries_.end() ? nullptr : &found->second;
}

Result<TensorView> Checkpoint::FindWidened(const std::string& name, Dtype blocks_as,
                                           std::vector<std::byte>* storage) const {
  const GgufEntry* const entry = Gguf(name);
  if (entry == nullptr || IsPlain(*entry)) return Find(name);
  WidenedTensor widened = Widen(*entry, blocks_as);
  MappedFile::DropPages(entry->tensor.bytes);
  *storage = std::move(widened.bytes);
  return TensorView{storage->data(), widened.dtype, entry->tensor.shape};
}

}  // namespace outrider
