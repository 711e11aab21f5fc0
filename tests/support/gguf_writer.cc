#include "tests/support/gguf_writer.h"

#include <utility>

namespace outrider {

std::string GgufString(const std::string& text) {
  return LittleEndian(static_cast<uint64_t>(text.size())) + text;
}

void GgufWriter::Raw(const std::string& key, uint32_t type, const std::string& bytes) {
  pairs_ += GgufString(key) + LittleEndian(type) + bytes;
  ++pair_count_;
}

void GgufWriter::Text(const std::string& key, const std::string& value) {
  Raw(key, 8, GgufString(value));
}
void GgufWriter::Uint32(const std::string& key, uint32_t value) {
  Raw(key, 4, LittleEndian(value));
}
void GgufWriter::Int32(const std::string& key, int32_t value) { Raw(key, 5, LittleEndian(value)); }
void GgufWriter::Float(const std::string& key, float value) { Raw(key, 6, LittleEndian(value)); }
void GgufWriter::Bool(const std::string& key, bool value) {
  Raw(key, 7, std::string(1, value ? '\1' : '\0'));
}

void GgufWriter::Texts(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes =
      LittleEndian(uint32_t{8}) + LittleEndian(static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) bytes += GgufString(value);
  Raw(key, 9, bytes);
}
void GgufWriter::Int32s(const std::string& key, const std::vector<int32_t>& values) {
  std::string bytes =
      LittleEndian(uint32_t{5}) + LittleEndian(static_cast<uint64_t>(values.size()));
  for (const int32_t value : values) bytes += LittleEndian(value);
  Raw(key, 9, bytes);
}
void GgufWriter::Floats(const std::string& key, const std::vector<float>& values) {
  std::string bytes =
      LittleEndian(uint32_t{6}) + LittleEndian(static_cast<uint64_t>(values.size()));
  for (const float value : values) bytes += LittleEndian(value);
  Raw(key, 9, bytes);
}

void GgufWriter::Tensor(const std::string& name, uint32_t type, const std::vector<int64_t>& shape,
                        std::string bytes) {
  tensors_.push_back({name, type, shape, std::move(bytes)});
}

std::string GgufWriter::File(uint64_t alignment) const {
  std::string file = "GGUF" + LittleEndian(uint32_t{3}) +
                     LittleEndian(static_cast<uint64_t>(tensors_.size())) +
                     LittleEndian(pair_count_) + pairs_;
  const auto pad = [&](std::string* text) {
    text->resize((text->size() + alignment - 1) / alignment * alignment, '\0');
  };
  std::string data;
  for (const StoredTensor& tensor : tensors_) {
    file += GgufString(tensor.name) + LittleEndian(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) file += LittleEndian(tensor.shape[i]);
    file += LittleEndian(tensor.type) + LittleEndian(static_cast<uint64_t>(data.size()));
    data += tensor.bytes;
    pad(&data);
  }
  pad(&file);
  return file + data;
}

}  // namespace outrider
