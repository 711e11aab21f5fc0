#include "common/model/quantization.h"

#include <string>
#include <string_view>

#include "common/model/config_fields.h"

namespace outrider {
namespace {

using Layout = Quantization::Layout;

// No group is larger than the widest matrix.
constexpr int kMaxGroup = 1 << 20;

// Rejects anything but null.
Status MustBeNull(const JsonValue& field) {
  return field.is_null() ? Status() : field.Unsupported();
}

// Rejects any other value, and a missing one.
template <class Value>
Status MustSay(const JsonValue& field, Value value) {
  return field.Is(value) ? Status() : field.Unsupported();
}

Status MustBeOn(const JsonValue& field) {
  OUTRIDER_ASSIGN(const bool on, field.Bool());
  return on ? Status() : field.Unsupported();
}

// Symmetric 8-bit integers.
Status CheckInt8(const JsonValue& values) {
  OUTRIDER_TRY(MustSay(values["num_bits"], 8));
  OUTRIDER_TRY(MustSay(values["type"], std::string_view("int")));
  OUTRIDER_TRY(MustBeOn(values["symmetric"]));
  for (const char* name : {"group_size", "block_structure", "actorder"}) {
    OUTRIDER_TRY(MustBeNull(values[name]));
  }
  return Status();
}

// Dynamic, with one scale per row.
Status CheckActivations(const JsonValue& activations) {
  OUTRIDER_TRY(CheckInt8(activations));
  OUTRIDER_TRY(MustSay(activations["strategy"], std::string_view("token")));
  return MustBeOn(activations["dynamic"]);
}

// A positive group size, or -1 or null for whole rows.
Status ReadGroupSize(const JsonValue& field, int* size) {
  if (field.is_null() || field.Is(-1)) return Status();
  OUTRIDER_ASSIGN(*size, field.Int(1, kMaxGroup));
  return Status();
}

// "int-quantized": one scale per output.
Result<Quantization> ReadInt8Rows(const JsonValue& group) {
  Quantization out = {.layout = Layout::kInt8Rows};
  const JsonValue weights = group["weights"];
  OUTRIDER_TRY(CheckInt8(weights));
  OUTRIDER_TRY(MustSay(weights["strategy"], std::string_view("channel")));
  OUTRIDER_TRY(MustBeOff(weights["dynamic"]));
  const JsonValue activations = group["input_activations"];
  if (!activations.is_null()) OUTRIDER_TRY(CheckActivations(activations));
  out.rounds_activations = !activations.is_null();
  return out;
}

// "pack-quantized": 4 or 8 bits, with groups, zero points and an order of the inputs.
Result<Quantization> ReadPacked(const JsonValue& group) {
  Quantization out = {.layout = Layout::kPacked};
  const JsonValue weights = group["weights"];
  OUTRIDER_TRY(MustSay(weights["type"], std::string_view("int")));
  if (!weights["num_bits"].Is(4)) OUTRIDER_TRY(MustSay(weights["num_bits"], 8));
  OUTRIDER_ASSIGN(out.bits, weights["num_bits"].Int());
  OUTRIDER_TRY(MustBeOff(weights["dynamic"]));
  OUTRIDER_TRY(MustBeNull(weights["block_structure"]));
  OUTRIDER_ASSIGN(const bool symmetric, weights["symmetric"].Bool());
  out.has_zeros = !symmetric;
  const JsonValue strategy = weights["strategy"];
  if (strategy.Is("group")) {
    OUTRIDER_TRY(ReadGroupSize(weights["group_size"], &out.group_size));
  } else {
    OUTRIDER_TRY(MustSay(strategy, std::string_view("channel")));
  }
  const JsonValue order = weights["actorder"];
  out.has_order = order.Is("group");
  // "weight" and "static": groups are consecutive inputs.
  if (!order.is_null() && !out.has_order && !order.Is("weight") && !order.Is("static")) {
    return order.Unsupported();
  }
  if (const JsonValue activations = group["input_activations"]; !activations.is_null()) {
    return activations.Unsupported();
  }
  return out;
}

// "float-quantized": FP8 with a scale per matrix, per output or per block.
Result<Quantization> ReadFloats(const JsonValue& group) {
  Quantization out = {.layout = Layout::kFp8};
  const JsonValue weights = group["weights"];
  OUTRIDER_TRY(MustSay(weights["num_bits"], 8));
  OUTRIDER_TRY(MustSay(weights["type"], std::string_view("float")));
  OUTRIDER_TRY(MustBeOn(weights["symmetric"]));
  OUTRIDER_TRY(MustBeOff(weights["dynamic"]));
  const JsonValue strategy = weights["strategy"];
  if (strategy.Is("block")) {
    const JsonValue block = weights["block_structure"];
    OUTRIDER_ASSIGN(out.block_rows, block[0].Int(1, kMaxGroup));
    OUTRIDER_ASSIGN(out.block_columns, block[1].Int(1, kMaxGroup));
  } else if (!strategy.Is("tensor") && !strategy.Is("channel")) {
    return strategy.Unsupported();
  }
  return out;
}

Result<Quantization> ReadGroup(const JsonValue& group, const JsonValue& format) {
  const JsonValue targets = group["targets"];
  if (targets.size() != 1 || !targets[0].Is("Linear")) {
    return targets.Unsupported("; supported: [\"Linear\"]");
  }
  OUTRIDER_TRY(MustBe(group["format"], format.text()));
  OUTRIDER_TRY(MustBeNull(group["output_activations"]));
  if (format.Is("int-quantized")) return ReadInt8Rows(group);
  if (format.Is("pack-quantized")) return ReadPacked(group);
  if (format.Is("float-quantized")) return ReadFloats(group);
  return format.Unsupported("; supported: int-quantized, pack-quantized and float-quantized");
}

// The scheme of the KV cache: FP8 with one scale per layer for keys and one for values.
Status CheckKvCacheScheme(const JsonValue& scheme) {
  OUTRIDER_TRY(MustSay(scheme["num_bits"], 8));
  OUTRIDER_TRY(MustSay(scheme["type"], std::string_view("float")));
  OUTRIDER_TRY(MustBe(scheme["strategy"], "tensor"));
  OUTRIDER_TRY(MustBeOff(scheme["dynamic"]));
  return scheme["symmetric"].is_null() ? Status() : MustBeOn(scheme["symmetric"]);
}

// https://github.com/vllm-project/compressed-tensors
Result<Quantization> ReadCompressedTensors(const JsonValue& field) {
  // Some files of compressed weights have "frozen".
  if (!field["quantization_status"].Is("frozen")) {
    OUTRIDER_TRY(MustBe(field["quantization_status"], "compressed"));
  }
  const JsonValue transforms = field["transform_config"];
  if (!transforms.is_null() && transforms.size() > 0) return transforms.Unsupported();
  const JsonValue kv_cache = field["kv_cache_scheme"];
  if (!kv_cache.is_null()) OUTRIDER_TRY(CheckKvCacheScheme(kv_cache));
  OUTRIDER_TRY(MustBe(field["sparsity_config"]["format"], "dense"));
  const JsonValue groups = field["config_groups"];
  OUTRIDER_TRY(groups.MustBeObject());
  if (groups.size() == 0 && !kv_cache.is_null()) return Quantization{.has_kv_scales = true};
  if (groups.size() != 1) return groups.Unsupported("; supported: one group");
  Result<Quantization> read = Quantization();
  OUTRIDER_TRY(groups.ForEachMember([&](const std::string&, const JsonValue& group) {
    read = ReadGroup(group, field["format"]);
    return read.status();
  }));
  if (read.ok()) read->has_kv_scales = !kv_cache.is_null();
  return read;
}

// With "weight_block_size", scales are per block (checkpoints of DeepSeek-V3 and Qwen3).
Result<Quantization> ReadFp8(const JsonValue& field) {
  Quantization out = {.layout = Layout::kFp8};
  OUTRIDER_TRY(MustBe(field["fmt"], "e4m3"));
  const JsonValue block = field["weight_block_size"];
  if (block.is_null()) return out;
  OUTRIDER_ASSIGN(out.block_rows, block[0].Int(1, kMaxGroup));
  OUTRIDER_ASSIGN(out.block_columns, block[1].Int(1, kMaxGroup));
  return out;
}

// https://github.com/AutoGPTQ/AutoGPTQ and https://github.com/ModelCloud/GPTQModel
Result<Quantization> ReadGptq(const JsonValue& field) {
  Quantization out = {.layout = Layout::kGptq};
  if (!field["bits"].Is(4)) OUTRIDER_TRY(MustSay(field["bits"], 8));
  OUTRIDER_ASSIGN(out.bits, field["bits"].Int());
  OUTRIDER_TRY(ReadGroupSize(field["group_size"], &out.group_size));
  OUTRIDER_TRY(field["desc_act"].Read(&out.has_order));
  // "format" in newer files.
  const char* const name = field["checkpoint_format"].is_null() ? "format" : "checkpoint_format";
  out.stores_zeros_less_one = !field[name].Is("gptq_v2");
  if (out.stores_zeros_less_one) OUTRIDER_TRY(MustBe(field[name], "gptq"));
  // Rules per module, which may set other bits for some.
  if (const JsonValue dynamic = field["dynamic"]; !dynamic.is_null() && dynamic.size() > 0) {
    return dynamic.Unsupported();
  }
  return out;
}

// https://github.com/casper-hansen/AutoAWQ
Result<Quantization> ReadAwq(const JsonValue& field) {
  Quantization out = {.layout = Layout::kAwq, .bits = 4};
  const JsonValue bits = field["bits"].is_null() ? field["w_bit"] : field["bits"];
  OUTRIDER_TRY(MustSay(bits, 4));
  const JsonValue group =
      field["group_size"].is_null() ? field["q_group_size"] : field["group_size"];
  OUTRIDER_TRY(ReadGroupSize(group, &out.group_size));
  if (!field["version"].Is("GEMM")) OUTRIDER_TRY(MustBe(field["version"], "gemm"));
  OUTRIDER_TRY(field["zero_point"].is_null() ? Status() : MustBeOn(field["zero_point"]));
  return out;
}

}  // namespace

Result<Quantization> ReadQuantization(const JsonValue& field) {
  if (field.is_null()) return Quantization();
  OUTRIDER_TRY(field.MustBeObject());
  const JsonValue method = field["quant_method"];
  if (method.Is("compressed-tensors")) return ReadCompressedTensors(field);
  if (method.Is("fp8")) return ReadFp8(field);
  if (method.Is("gptq")) return ReadGptq(field);
  if (method.Is("awq")) return ReadAwq(field);
  if (method.Is("mxfp4")) return Quantization{.layout = Layout::kMxfp4, .bits = 4};
  return (method.absent() ? field : method)
      .Unsupported("; supported: compressed-tensors, fp8, gptq, awq and mxfp4");
}

}  // namespace outrider
