// Writes GGUF files for tests: single ones by hand, and what llama.cpp's conversion makes of a test
// checkpoint. It shares no code with common/gguf and common/model.
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
  // A pair whose value is `bytes` after the number of its type.
  void Raw(const std::string& key, uint32_t type, const std::string& bytes);
  // `shape` with the rows first; `type` as ggml numbers it.
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

// Little-endian bytes of a number.
template <class T>
std::string LittleEndian(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
// A length and the text.
std::string GgufString(const std::string& text);

// "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K" or "Q6_K": the number and the bytes of the values.
// REQUIRES: whole blocks.
uint32_t GgmlTypeNumber(const std::string& type);
std::string GgmlEncode(const std::string& type, std::span<const float> values);
// The values that such bytes stand for.
std::vector<float> GgmlDecode(const std::string& type, const std::string& bytes);

struct GgufOptions {
  std::string type = "F32";  // of matrices
  // Of the matrices v, down and token_embd, as llama.cpp's mixtures have them; "": as `type`.
  std::string finer_type;
  std::string pre = "gpt-2";  // tokenizer.ggml.pre
  bool tokenizer = false;     // writes tokenizer.json's, which must be byte-level
};

// Writes `to` from the directory's config.json, model.safetensors and tokenizer.json, as the
// conversion does: reordered rows of q and k, Gemma's norms with their 1, a layer's experts as one
// tensor, factors of RoPE as tensors. The directory's weights become those that the file holds, in
// F32: what a reference model has to read.
Status WriteGguf(const std::filesystem::path& directory, const std::filesystem::path& to,
                 const GgufOptions& options);

}  // namespace outrider
