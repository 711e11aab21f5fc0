#include "tests/support/safetensors_writer.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace outrider {

Status WriteFile(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  return file ? Status() : Internal(path.string() + ": cannot be written");
}

std::map<std::string, StoredTensor> ReadSafetensors(std::string_view file) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  std::map<std::string, StoredTensor> tensors;
  const auto header = nlohmann::json::parse(file.substr(sizeof header_bytes, header_bytes));
  const std::string_view data = file.substr(sizeof header_bytes + header_bytes);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = {entry["dtype"], entry["shape"], std::string(data.substr(begin, end - begin))};
  }
  return tensors;
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
