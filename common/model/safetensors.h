// Reads weights in the safetensors format: 8 bytes of header length (little endian), a JSON header
// {"name": {"dtype", "shape", "data_offsets"}}, then the tensors' bytes without gaps.
// https://github.com/huggingface/safetensors (format section of its README).
//
// Files are not trusted: everything in a header is checked before a view into the file is given
// out. Errors name the file and the tensor: kDataLoss when the file is shorter than it says,
// kInvalidArgument when the header contradicts itself or the format, kUnimplemented for an element
// type that nobody here knows.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "common/model/mapped_file.h"
#include "common/tensor/tensor.h"

namespace outrider {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the file spells it: "BF16"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // within the file
};

// The tensors of one file; `where` begins the messages.
Result<std::vector<SafetensorsEntry>> ParseSafetensors(std::span<const std::byte> file,
                                                       const std::string& where);

// The weights of a model directory: model.safetensors, or the shards that
// model.safetensors.index.json lists. Immutable, so safe from any thread.
class Checkpoint {
 public:
  static Result<Checkpoint> Open(const std::filesystem::path& directory);

  bool Has(std::string_view name) const { return Entry(std::string(name)) != nullptr; }
  // Of any element type; nullptr without such a tensor.
  const SafetensorsEntry* Entry(const std::string& name) const;
  // A view into the mapped file, valid as long as this object. kNotFound without such a tensor,
  // kUnimplemented when its elements are not f32, f16 or bf16.
  Result<TensorView> Find(const std::string& name) const;
  size_t size() const { return entries_.size(); }
  // Of all tensors.
  int64_t bytes() const;

 private:
  Checkpoint() = default;
  Status AddFile(const std::filesystem::path& path);

  std::filesystem::path directory_;
  std::vector<MappedFile> files_;
  std::unordered_map<std::string, SafetensorsEntry> entries_;
};

}  // namespace outrider
