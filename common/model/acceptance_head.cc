#include "common/model/acceptance_head.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/base/mapped_file.h"
#include "common/base/output_file.h"
#include "common/model/safetensors.h"
#include "common/tensor/tensor.h"

namespace outrider {
namespace {

// A tensor's name and shape in the file, and where its elements (out, in) are in the parameters.
struct Part {
  std::string name;
  std::vector<int64_t> shape;
  size_t offset;
  bool transposed = false;
};

std::vector<Part> PartsOf(int width, int depth) {
  const auto w = static_cast<size_t>(width);
  std::vector<Part> parts;
  size_t offset = 0;
  for (int i = 0; i < depth; ++i) {
    const std::string block = "blocks." + std::to_string(i) + ".";
    parts.push_back({block + "weight", {width, width}, offset, true});
    parts.push_back({block + "bias", {width}, offset + w * w});
    offset += w * w + w;
  }
  parts.push_back({"out.weight", {1, width}, offset});
  parts.push_back({"out.bias", {1}, offset + w});
  return parts;
}

size_t Elements(const Part& part) {
  size_t count = 1;
  for (const int64_t size : part.shape) count *= static_cast<size_t>(size);
  return count;
}

size_t Place(const Part& part, size_t element) {
  if (!part.transposed) return part.offset + element;
  const auto width = static_cast<size_t>(part.shape[1]);
  return part.offset + element % width * width + element / width;
}

Result<Dtype> DtypeOf(const SafetensorsEntry& entry) {
  if (entry.dtype == "F32") return Dtype::kF32;
  if (entry.dtype == "F16") return Dtype::kF16;
  if (entry.dtype == "BF16") return Dtype::kBf16;
  return InvalidArgument(entry.name + ": elements of " + entry.dtype);
}

Status Read(const SafetensorsEntry& entry, const Part& part, std::vector<float>& parameters) {
  if (entry.shape != part.shape) {
    std::string shape;
    for (const int64_t size : entry.shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    return InvalidArgument(part.name + " is [" + shape + "], the head of a model of hidden size " +
                           std::to_string(part.shape.back()) + " has another shape");
  }
  OUTRIDER_ASSIGN(const Dtype dtype, DtypeOf(entry));
  const TensorView view{.data = entry.bytes.data(), .dtype = dtype, .shape = entry.shape};
  for (size_t i = 0; i < Elements(part); ++i) {
    const float value = LoadElement(view, i);
    if (!std::isfinite(value))
      return InvalidArgument(part.name + " holds a number that is not finite");
    parameters[Place(part, i)] = value;
  }
  return Status();
}

Result<AcceptanceHead> FromEntries(const std::vector<SafetensorsEntry>& entries, int width) {
  std::unordered_map<std::string, const SafetensorsEntry*> by_name;
  for (const SafetensorsEntry& entry : entries) by_name[entry.name] = &entry;
  AcceptanceHead head{.width = width, .depth = 0, .parameters = {}};
  while (by_name.contains("blocks." + std::to_string(head.depth) + ".weight")) ++head.depth;
  if (head.depth > kMaxHeadDepth) {
    return InvalidArgument(std::to_string(head.depth) + " blocks, at most " +
                           std::to_string(kMaxHeadDepth));
  }
  const std::vector<Part> parts = PartsOf(width, head.depth);
  if (entries.size() != parts.size()) {
    return InvalidArgument(std::to_string(entries.size()) + " tensors, a head of " +
                           std::to_string(head.depth) + " blocks has " +
                           std::to_string(parts.size()));
  }
  size_t bytes = 0;
  for (const SafetensorsEntry& entry : entries) bytes += entry.bytes.size();
  const size_t size = ResidualMlpSize(width, head.depth);
  if (bytes < size * sizeof(uint16_t)) {
    return InvalidArgument(std::to_string(bytes) + " bytes, a head of " +
                           std::to_string(head.depth) + " blocks for " + std::to_string(width) +
                           " values has " + std::to_string(size) + " parameters");
  }
  head.parameters.resize(size);
  for (const Part& part : parts) {
    const auto found = by_name.find(part.name);
    if (found == by_name.end()) return InvalidArgument("no tensor " + part.name);
    OUTRIDER_TRY(Read(*found->second, part, head.parameters));
  }
  return head;
}

}  // namespace

std::vector<float> AcceptanceHead::Logits(std::span<const float> hidden) const {
  const auto row = static_cast<size_t>(width);
  std::vector<float> x(row), scratch(row), logits;
  for (size_t begin = 0; begin + row <= hidden.size(); begin += row) {
    x.assign(hidden.begin() + static_cast<std::ptrdiff_t>(begin),
             hidden.begin() + static_cast<std::ptrdiff_t>(begin + row));
    logits.push_back(ResidualMlpRow({width, depth, parameters.data()}, x.data(), scratch.data()));
  }
  return logits;
}

Result<AcceptanceHead> AcceptanceHead::Load(const std::filesystem::path& file, int width) {
  OUTRIDER_ASSIGN(const MappedFile mapped, MappedFile::Open(file));
  OUTRIDER_ASSIGN(const std::vector<SafetensorsEntry> entries,
                  ParseSafetensors(mapped.bytes(), file.string()));
  Result<AcceptanceHead> head = FromEntries(entries, width);
  if (!head.ok()) return head.status().Annotate(file.string());
  return head;
}

Result<std::optional<AcceptanceHead>> AcceptanceHead::LoadBeside(const std::filesystem::path& model,
                                                                 int width) {
  const std::filesystem::path file = model / kAcceptanceHeadFile;
  std::error_code unknown;  // for example a symbolic link to itself: Load reports it
  if (!std::filesystem::exists(file, unknown) && !unknown) return std::optional<AcceptanceHead>();
  OUTRIDER_ASSIGN(AcceptanceHead head, Load(file, width));
  return std::optional(std::move(head));
}

Status AcceptanceHead::Save(const std::filesystem::path& file) const {
  static_assert(std::endian::native == std::endian::little);
  nlohmann::ordered_json header;
  std::vector<float> data;
  for (const Part& part : PartsOf(width, depth)) {
    const size_t begin = data.size() * sizeof(float);
    for (size_t i = 0; i < Elements(part); ++i) data.push_back(parameters[Place(part, i)]);
    header[part.name] = {{"dtype", "F32"},
                         {"shape", part.shape},
                         {"data_offsets", {begin, data.size() * sizeof(float)}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  return ReplaceFile(file, [&](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << text;
    out.write(reinterpret_cast<const char*>(data.data()),
              static_cast<std::streamsize>(data.size() * sizeof(float)));
  });
}

}  // namespace outrider
