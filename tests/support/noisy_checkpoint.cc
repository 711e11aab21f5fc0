#include "tests/support/noisy_checkpoint.h"

#include <cstring>
#include <random>
#include <string>

#include "common/base/input_file.h"
#include "common/tensor/tensor.h"
#include "tests/support/checkpoint_folder.h"

namespace outrider {
namespace {

constexpr size_t kConfigBytes = 1 << 20;

void AddNoise(std::string* bf16, float strength, std::mt19937_64* random) {
  std::normal_distribution<float> normal;
  for (size_t offset = 0; offset < bf16->size(); offset += sizeof(uint16_t)) {
    uint16_t bits = 0;
    std::memcpy(&bits, bf16->data() + offset, sizeof(bits));
    bits = FloatToBf16(Bf16ToFloat(bits) * (1 + strength * normal(*random)));
    std::memcpy(bf16->data() + offset, &bits, sizeof(bits));
  }
}

}  // namespace

Status AddNoise(const std::filesystem::path& from, const std::filesystem::path& to, float strength,
                uint64_t seed) {
  OUTRIDER_ASSIGN(auto tensors, ReadTensors(from));
  OUTRIDER_ASSIGN(const std::string config, ReadFile(from / kConfigFile, kConfigBytes));
  std::mt19937_64 random(seed);
  for (auto& [name, tensor] : tensors) {
    if (tensor.shape.size() != 2) continue;
    if (tensor.dtype != "BF16") return Unimplemented(name + " is " + tensor.dtype + ", not BF16");
    AddNoise(&tensor.bytes, strength, &random);
  }
  OUTRIDER_TRY(CopyOtherFiles(from, to));
  OUTRIDER_TRY(WriteFile(to / kConfigFile, config));
  return WriteSafetensors(to / kWeightsFile, tensors);
}

}  // namespace outrider
