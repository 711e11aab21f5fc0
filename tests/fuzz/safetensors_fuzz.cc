// For any bytes: ParseSafetensors rejects them, or every tensor is within them.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "common/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto parsed = outrider::ParseSafetensors(file, "input");
  if (!parsed.ok()) return 0;
  size_t covered = 0;
  for (const outrider::SafetensorsEntry& entry : *parsed) {
    covered += entry.bytes.size();
    // AddressSanitizer detects reads outside the input.
    for (const std::byte& b : entry.bytes) {
      if (&b < file.data() || &b >= file.data() + size) std::abort();
    }
  }
  if (covered > size) std::abort();
  return 0;
}
