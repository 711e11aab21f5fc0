#include "common/model/quantization.h"

#include <string>
#include <string_view>

#include "common/model/config_fields.h"

namespace outrider {
namespace {

// Refuses anything but null.
Status MustBeNull(const JsonValue& field) {
  return field.is_null() ? Status() : field.Unsupported();
}

// Refuses any other value, and its absence.
template <class Value>
Status MustSay(const JsonValue& field, Value value) {
  return field.Is(value) ? Status() : field.Unsupported();
}

Status MustBeOn(const JsonValue& field) {
  OUTRIDER_ASSIGN(const bool on, field.Bool());
  return on ? Status() : field.Unsupported();
}

// Integers of 8 bits around zero.
Status CheckInt8(const JsonValue& values) {
  OUTRIDER_TRY(MustSay(values["num_bits"], 8));
  OUTRIDER_TRY(MustSay(values["type"], std::string_view("int")));
  OUTRIDER_TRY(MustBeOn(values["symmetric"]));
  for (const char* name : {"group_size", "block_structure", "actorder"}) {
    OUTRIDER_TRY(MustBeNull(values[name]));
  }
  return Status();
}

// One scale for each output.
Status CheckWeights(const JsonValue& weights) {
  OUTRIDER_TRY(CheckInt8(weights));
  OUTRIDER_TRY(MustSay(weights["strategy"], std::string_view("channel")));
  return MustBeOff(weights["dynamic"]);
}

// One scale for each row, taken from its values.
Status CheckActivations(const JsonValue& activations) {
  OUTRIDER_TRY(CheckInt8(activations));
  OUTRIDER_TRY(MustSay(activations["strategy"], std::string_view("token")));
  return MustBeOn(activations["dynamic"]);
}

Result<Quantization> ReadGroup(const JsonValue& group) {
  const JsonValue targets = group["targets"];
  if (targets.size() != 1 || !targets[0].Is("Linear")) {
    return targets.Unsupported("; supported: [\"Linear\"]");
  }
  OUTRIDER_TRY(MustBe(group["format"], "int-quantized"));
  OUTRIDER_TRY(MustBeNull(group["output_activations"]));
  OUTRIDER_TRY(CheckWeights(group["weights"]));
  const JsonValue activations = group["input_activations"];
  if (activations.is_null()) return Quantization::kW8A16;
  OUTRIDER_TRY(CheckActivations(activations));
  return Quantization::kW8A8;
}

}  // namespace

Result<Quantization> ReadQuantization(const JsonValue& field) {
  if (field.is_null()) return Quantization::kNone;
  OUTRIDER_TRY(field.MustBeObject());
  const JsonValue method = field["quant_method"];
  if (!method.Is("compressed-tensors")) return (method.absent() ? field : method).Unsupported();
  OUTRIDER_TRY(MustSay(field["format"], std::string_view("int-quantized")));
  // Some files of compressed weights say "frozen".
  if (!field["quantization_status"].Is("frozen")) {
    OUTRIDER_TRY(MustBe(field["quantization_status"], "compressed"));
  }
  const JsonValue transforms = field["transform_config"];
  if (!transforms.is_null() && transforms.size() > 0) return transforms.Unsupported();
  OUTRIDER_TRY(MustBeNull(field["kv_cache_scheme"]));
  OUTRIDER_TRY(MustBe(field["sparsity_config"]["format"], "dense"));
  const JsonValue groups = field["config_groups"];
  OUTRIDER_TRY(groups.MustBeObject());
  if (groups.size() != 1) return groups.Unsupported("; supported: one group");
  Result<Quantization> read = Quantization::kNone;
  OUTRIDER_TRY(groups.ForEachMember([&](const std::string&, const JsonValue& group) {
    read = ReadGroup(group);
    return read.status();
  }));
  return read;
}

}  // namespace outrider
