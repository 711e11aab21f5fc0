// Writes GGUF files for tests: hand-made ones, and test checkpoints converted as by llama.cpp.
// Shares no code with common/gguf and common/model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// Appends pairs and tensors in the order of the calls.
class GgufWriter {
 public:
  void Text(const std::string& key, const std::string& value);
  void Uint32(const std::string& key, uint32_t value);
  void Int32(const std::string& key, int32_t value);
  void Float(const std::string& key, float value);
  void Bool(const std::string& key, bool value);
  void Texts(const std::string& key, const std::vector<std::string>& values);
  void Int32s(const std::string& key, const std::vector<int32_t>& values);
  void Floats(const std::string& key, const std::vector<float>& values);
  // A pair whose value is `bytes`, preceded by the number of its type.
  void Raw(const std::string& key, uint32_t type, const std::string& bytes);
  // `shape` has the rows first; `type` is ggml's number.
  void Tensor(const std::string& name, uint32_t type, const std::vector<int64_t>& shape,
              std::string bytes);

  std::string File(uint64_t alignment = 32) const;

 private:
  struct StoredTensor {
    std::string name;
    uint32_t type;
    std::vector<int64_t> shape;
    std::string bytes;
  };
  std::string pairs_;
  uint64_t pair_count_ = 0;
  std::vector<StoredTensor> tensors_;
};

// A number's bytes in little-endian order.
template <class T>
std::string LittleEndian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
// The length, then the text.
std::string GgufString(const std::string& text);

// The number of "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K" or "Q6_K", and the encoded values.
// REQUIRES: whole blocks.
uint32_t GgmlTypeNumber(const std::string& type);
std::string GgmlEncode(const std::string& type, std::span<const float> values);
// Decodes such bytes.
std::vector<float> GgmlDecode(const std::string& type, const std::string& bytes);

struct GgufOptions {
  std::string type = "F32";  // for matrices
  // For the matrices v, down and token_embd, as in llama.cpp's mixed types; "": as `type`.
  std::string finer_type;
  std::string pre = "gpt-2";  // tokenizer.ggml.pre
  bool tokenizer = false;     // writes tokenizer.json's, which must be byte-level
};

// Writes `to` from the directory's config.json, model.safetensors and tokenizer.json, as the
// conversion does: reordered rows of q and k, Gemma's norms with their 1 added, a layer's experts
// as one tensor, RoPE factors as tensors. The directory's weights are replaced by the file's values
// in F32, for a reference model to read.
Status WriteGguf(const std::filesystem::path& directory, const std::filesystem::path& to,
                 const GgufOptions& options);

}  // namespace outrider
