#include "tests/support/safetensors_writer.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace outrider {

Status WriteFile(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  return file ? Status() : Internal(path.string() + ": cannot be written");
}

Status WriteSafetensors(const std::filesystem::path& path,
                        const std::map<std::string, StoredTensor>& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data += tensor.bytes;
    header[name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return WriteFile(path, length + text + data);
}

}  // namespace outrider
