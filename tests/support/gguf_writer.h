// Writes GGUF files for tests, pair by pair. Shares no code with common/gguf and common/model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/ggml_types.h"

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

// The length, then the text.
std::string GgufString(const std::string& text);

}  // namespace outrider
