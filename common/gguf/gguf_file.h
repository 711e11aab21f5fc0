// Reads GGUF, llama.cpp's file format for a whole model: metadata (pairs of a key and a typed
// value), then the names, shapes and types of the tensors, then their bytes.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// Files are not trusted: counts, lengths, types and offsets are checked before memory in proportion
// to them is allocated, and what is kept is at most a few times the size of the file's header.
// Errors name the file and the key or tensor: kDataLoss when the file is shorter than it claims,
// kInvalidArgument when it contradicts itself or the format, kUnimplemented for an unsupported
// version or element type.
//
// Thread: any (immutable).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/base/status.h"

namespace outrider {

// Limits of metadata pairs and tensors; files in use have some hundred pairs and a thousand
// tensors.
inline constexpr uint64_t kMaxGgufPairs = 1 << 16;
inline constexpr uint64_t kMaxGgufTensors = 1 << 17;

// Element formats of tensors: blocks of consecutive elements of a row. The layouts are in
// common/model/ggml_blocks.cc.
enum class GgmlType { kF32, kF16, kBf16, kQ80, kQ40, kQ50, kQ4K, kQ5K, kQ6K, kMxfp4 };

// "Q4_K"
const char* GgmlTypeName(GgmlType type);
int64_t GgmlBlockElements(GgmlType type);
int64_t GgmlBlockBytes(GgmlType type);

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<int64_t> shape;        // [rows, columns], rows outermost; reversed in the file
  std::span<const std::byte> bytes;  // within the file
};

// A metadata value as in the file.
struct GgufValue {
  // The format's numbers.
  enum class Type : uint32_t {
    kUint8 = 0,
    kInt8 = 1,
    kUint16 = 2,
    kInt16 = 3,
    kUint32 = 4,
    kInt32 = 5,
    kFloat32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kUint64 = 10,
    kInt64 = 11,
    kFloat64 = 12,
  };
  Type type = Type::kUint8;
  Type element = Type::kUint8;  // for arrays
  uint64_t count = 0;           // for arrays, the number of elements
  // The characters of a string, or the elements of an array.
  std::span<const std::byte> bytes;
};

class GgufFile {
 public:
  // Also fails with the errors of MappedFile.
  static Result<GgufFile> Open(const std::filesystem::path& path);
  // `bytes` must outlive the result; `where` begins the messages.
  static Result<GgufFile> Parse(std::span<const std::byte> bytes, const std::string& where);

  const std::string& where() const { return where_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in the order of the bytes
  // nullptr without such a tensor.
  const GgufTensor* Tensor(std::string_view name) const;

  bool Has(std::string_view key) const { return metadata_.contains(key); }
  // Required values. A string is not necessarily UTF-8.
  Result<std::string_view> Text(std::string_view key) const;
  Result<int64_t> Int(std::string_view key, int64_t low, int64_t high) const;
  Result<bool> Bool(std::string_view key) const;
  Result<double> Number(std::string_view key) const;  // an integer or a finite float
  Result<std::vector<std::string_view>> Texts(std::string_view key) const;
  Result<std::vector<int64_t>> Ints(std::string_view key) const;
  Result<std::vector<float>> Floats(std::string_view key) const;  // all finite
  // nullopt if there is none.
  Result<std::optional<int64_t>> MaybeInt(std::string_view key, int64_t low, int64_t high) const;
  Result<std::optional<bool>> MaybeBool(std::string_view key) const;
  // A token's id, below `limit`; nullopt also for -1, which some files have instead of no id.
  Result<std::optional<int64_t>> MaybeToken(std::string_view key, int64_t limit) const;

  // kInvalidArgument or kUnimplemented, with the message "<where>: <key> <why>".
  Status Wrong(std::string_view key, const std::string& why) const;
  Status Unsupported(std::string_view key, const std::string& why) const;

 private:
  class Reader;
  GgufFile() = default;
  Result<const GgufValue*> Find(std::string_view key) const;
  Result<const GgufValue*> FindArray(std::string_view key) const;

  std::string where_;
  std::optional<MappedFile> file_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
};

// The file that `path` means as a model: a file whose name ends in .gguf, or the one such file of a
// folder that has no model.safetensors (nor its index). nullopt: `path` is something else.
std::optional<std::filesystem::path> FindGgufModel(const std::filesystem::path& path);

}  // namespace outrider
