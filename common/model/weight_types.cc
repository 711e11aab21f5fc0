#include "common/model/weight_types.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace outrider {
namespace {

// The smallest magnitude that is rounded to infinity.
float LeastInfinite(WeightType type) {
  switch (type) {
    case WeightType::kF16: return 65520.f;
    case WeightType::kBf16: return std::bit_cast<float>(0x7f7f8000u);
    case WeightType::kF32:
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kW4A16:
    case WeightType::kFp8:
    case WeightType::kMxfp4: break;
  }
  return std::numeric_limits<float>::infinity();
}

// The values of --weights that can represent numbers which `type` cannot.
const char* WiderTypes(WeightType type) {
  switch (type) {
    case WeightType::kF16: return "bf16 or f32";
    case WeightType::kBf16:
    case WeightType::kF32:
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kW4A16:
    case WeightType::kFp8:
    case WeightType::kMxfp4: break;
  }
  return "f32";
}

// "[12, 345]": the coordinates of element `index`.
std::string Coordinates(const std::vector<int64_t>& shape, size_t index) {
  std::string text;
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    const std::string coordinate = std::to_string(index % static_cast<size_t>(*size));
    text.insert(0, text.empty() ? coordinate : coordinate + ", ");
    index /= static_cast<size_t>(*size);
  }
  return "[" + text + "]";
}

}  // namespace

bool IsFloats(WeightType type) {
  return type == WeightType::kF32 || type == WeightType::kF16 || type == WeightType::kBf16;
}

bool LosesPrecision(Dtype stored, WeightType kept) {
  switch (kept) {
    case WeightType::kF32: return false;
    case WeightType::kBf16: return stored != Dtype::kBf16;
    case WeightType::kF16: return stored != Dtype::kF16;
    case WeightType::kW8A16:
    case WeightType::kW8A8:
    case WeightType::kW4A16:
    case WeightType::kFp8:
    case WeightType::kMxfp4: return true;
  }
  return true;
}

WeightType KeptTypeOfCodes(const QuantizedMatrix& matrix, WeightType asked,
                           bool rounds_activations) {
  switch (matrix.type) {
    case CodeType::kInt4: return WeightType::kW4A16;
    case CodeType::kFp8E4M3: return WeightType::kFp8;
    case CodeType::kFp4E2M1: return WeightType::kMxfp4;
    case CodeType::kInt8: break;
  }
  const bool is_plain = matrix.groups() == 1 && matrix.offsets.empty();
  const bool rounds = asked == WeightType::kW8A8 || rounds_activations;
  return rounds && is_plain ? WeightType::kW8A8 : WeightType::kW8A16;
}

// A NaN in a weight turns every text into the same garbage; if it is not found here, it never is.
Status CheckFits(const std::string& name, const TensorView& view, WeightType kept) {
  const size_t index = FindUnfit(view, LeastInfinite(kept));
  if (index == view.elements()) return Status();
  const float value = LoadElement(view, index);
  const std::string element = name + Coordinates(view.shape, index) + " is ";
  if (!std::isfinite(value)) {
    return DataLoss(element + (std::isnan(value) ? "NaN" : "infinite") +
                    "; weights must be finite: the checkpoint is damaged, fetch or convert it "
                    "again");
  }
  return InvalidArgument(element + std::to_string(value) + ", more than " + WeightTypeName(kept) +
                         " can hold; use --weights " + WiderTypes(kept));
}

}  // namespace outrider
