// Reads weights in the safetensors format: 8 bytes of header length (little endian), a JSON header
// {"name": {"dtype", "shape", "data_offsets"}}, then the tensors' bytes without gaps.
// https://github.com/huggingface/safetensors (format section of its README).
//
// Files are not trusted: everything in a header is checked before a view into the file is returned.
// Errors name the file and the tensor: kDataLoss when the file is shorter than it claims,
// kInvalidArgument when the header contradicts itself or the format, kUnimplemented for an unknown
// element type.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/base/status.h"
#include "common/gguf/gguf_file.h"
#include "common/model/architectures/gguf_config.h"
#include "common/tensor/tensor.h"

namespace outrider {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as spelled in the file: "BF16"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // within the file
};

// The tensors of one file; error messages begin with `where`.
Result<std::vector<SafetensorsEntry>> ParseSafetensors(std::span<const std::byte> file,
                                                       const std::string& where);

// The weights of a model: model.safetensors of a directory, or the shards that its
// model.safetensors.index.json lists, or a GGUF file, whose tensors then have the names of an HF
// checkpoint. Immutable, so safe from any thread.
class Checkpoint {
 public:
  static Result<Checkpoint> Open(const std::filesystem::path& directory);

  bool Has(std::string_view name) const { return Entry(std::string(name)) != nullptr; }
  // The tensor of any element type; nullptr if there is no such tensor.
  const SafetensorsEntry* Entry(const std::string& name) const;
  // A view into the mapped file, valid as long as this object. kNotFound if there is no such
  // tensor, kUnimplemented when its elements are not f32, f16 or bf16.
  Result<TensorView> Find(const std::string& name) const;
  // The same, but also for a GGUF file's blocks and reordered rows: values are then widened into
  // `storage`, blocks as `blocks_as` (kF32 or kBf16), and the view points into that.
  Result<TensorView> FindWidened(const std::string& name, Dtype blocks_as,
                                 std::vector<std::byte>* storage) const;
  // The tensor in a GGUF file; nullptr for other files, and if there is no such tensor.
  const GgufEntry* Gguf(const std::string& name) const;
  size_t size() const { return entries_.size(); }
  // Size of all tensors.
  int64_t bytes() const;

 private:
  Checkpoint() = default;
  Status AddFile(const std::filesystem::path& path);
  Status AddGguf(const std::filesystem::path& path);

  std::filesystem::path directory_;
  std::vector<MappedFile> files_;
  std::unordered_map<std::string, SafetensorsEntry> entries_;
  // For a GGUF file; the entries point to its tensors.
  std::optional<GgufFile> gguf_;
  std::unordered_map<std::string, GgufEntry> gguf_entries_;
};

}  // namespace outrider
