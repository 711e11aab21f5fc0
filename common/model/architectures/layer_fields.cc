#include "common/model/architectures/layer_fields.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace outrider {
namespace {

constexpr double kMaxFactor = 65536;

// An optional factor: if it is missing, `out` keeps its value.
Status ReadFactor(const JsonValue& field, float* out) {
  return field.is_null() ? Status() : ReadPositive(field, kMaxFactor, out);
}

Status ReadLinear(const JsonValue& json, RopeDescription* rope) {
  LinearRopeScaling scaling;
  OUTRIDER_TRY(ReadPositive(json["factor"], kMaxFactor, &scaling.factor));
  rope->scaling = scaling;
  return Status();
}

// "dynamic" scales nothing up to max_position_embeddings, which is where a context ends here.
// Beyond that, the frequencies would change with the length of the sequence.
Status ReadDynamic(const JsonValue& json) {
  float factor = 1.f;
  return ReadPositive(json["factor"], kMaxFactor, &factor);
}

Status ReadLlama3(const JsonValue& json, RopeDescription* rope) {
  Llama3RopeScaling scaling;
  OUTRIDER_TRY(ReadPositive(json["factor"], kMaxFactor, &scaling.factor));
  OUTRIDER_TRY(ReadPositive(json["low_freq_factor"], kMaxFactor, &scaling.low_freq_factor));
  OUTRIDER_TRY(ReadPositive(json["high_freq_factor"], kMaxFactor, &scaling.high_freq_factor));
  OUTRIDER_ASSIGN(scaling.original_max_position_embeddings,
                  json["original_max_position_embeddings"].Int(1, kMaxPositions));
  if (!(scaling.low_freq_factor < scaling.high_freq_factor)) {
    return json["low_freq_factor"].Wrong("below high_freq_factor");
  }
  rope->scaling = scaling;
  return Status();
}

// YaRN's temperature (Peng et al. 2023, equation 22), with DeepSeek's two exponents if the file has
// both.
Status ReadYarnAttentionFactor(const JsonValue& json, double factor, float* out) {
  float mscale = 0, mscale_all_dim = 0;
  OUTRIDER_TRY(json["mscale"].Read(&mscale));
  OUTRIDER_TRY(json["mscale_all_dim"].Read(&mscale_all_dim));
  const double log = factor <= 1 ? 0 : 0.1 * std::log(factor);
  *out = static_cast<float>(1 + log);
  if (mscale != 0 && mscale_all_dim != 0) {
    *out = static_cast<float>((1 + double{mscale} * log) / (1 + double{mscale_all_dim} * log));
  }
  if (!(*out > 0) || !(static_cast<double>(*out) < kMaxFactor)) {
    return json["mscale"].Wrong("such that the attention factor is above 0");
  }
  return ReadFactor(json["attention_factor"], out);
}

Status ReadYarn(const JsonValue& json, ModelConfig* config, RopeDescription* rope) {
  YarnRopeScaling scaling;
  OUTRIDER_TRY(ReadPositive(json["factor"], kMaxFactor, &scaling.factor));
  OUTRIDER_TRY(ReadFactor(json["beta_fast"], &scaling.beta_fast));
  OUTRIDER_TRY(ReadFactor(json["beta_slow"], &scaling.beta_slow));
  OUTRIDER_TRY(json["truncate"].Read(&scaling.truncate));
  OUTRIDER_TRY(ReadYarnAttentionFactor(json, scaling.factor, &rope->attention_factor));
  if (rope->theta <= 1) return json["rope_theta"].Wrong("above 1 where rope_type is yarn");
  scaling.original_max_position_embeddings = config->max_position_embeddings;
  const JsonValue original = json["original_max_position_embeddings"];
  if (!original.is_null()) {
    OUTRIDER_ASSIGN(scaling.original_max_position_embeddings, original.Int(1, kMaxPositions));
    // Qwen's model cards add the scaling to config.json without changing max_position_embeddings.
    const double reach = double{scaling.factor} * scaling.original_max_position_embeddings;
    config->max_position_embeddings = std::max(
        config->max_position_embeddings, static_cast<int>(std::min<double>(reach, kMaxPositions)));
  }
  rope->scaling = scaling;
  return Status();
}

Result<std::vector<float>> ReadFactors(const JsonValue& list, int count) {
  if (!list.is_array() || list.size() != static_cast<size_t>(count)) {
    return list.Wrong("a list of " + std::to_string(count) +
                      " numbers, one for each rotated pair of a head");
  }
  std::vector<float> factors(list.size());
  for (size_t i = 0; i < factors.size(); ++i) {
    OUTRIDER_TRY(ReadPositive(list[i], kMaxFactor, &factors[i]));
  }
  return factors;
}

// Transformers uses the short factors while a sequence is no longer than the original context, and
// the long ones from then on, for earlier tokens as well, whose keys would have to be recomputed.
// Here a model uses one of the two, depending on its longest possible context.
Status ReadLongRope(const JsonValue& json, const JsonValue& within, const ModelConfig& config,
                    RopeDescription* rope) {
  // Phi-3's files have it at the top level.
  const JsonValue outside = json["original_max_position_embeddings"];
  const JsonValue field = outside.is_null() ? within["original_max_position_embeddings"] : outside;
  OUTRIDER_ASSIGN(const int original, field.Int(2, kMaxPositions));
  OUTRIDER_ASSIGN(std::vector<float> short_factors,
                  ReadFactors(within["short_factor"], rope->dims / 2));
  OUTRIDER_ASSIGN(std::vector<float> long_factors,
                  ReadFactors(within["long_factor"], rope->dims / 2));
  const int longest = config.max_position_embeddings;
  float factor = static_cast<float>(longest) / static_cast<float>(original);
  OUTRIDER_TRY(ReadFactor(within["factor"], &factor));
  const double log =
      factor <= 1 ? 0 : std::log(double{factor}) / std::log(static_cast<double>(original));
  rope->attention_factor = static_cast<float>(std::sqrt(1 + log));
  OUTRIDER_TRY(ReadFactor(within["attention_factor"], &rope->attention_factor));
  rope->scaling =
      LongRopeScaling{longest > original ? std::move(long_factors) : std::move(short_factors)};
  return Status();
}

}  // namespace

Status ReadRopeTheta(const JsonValue& theta, RopeDescription* rope) {
  constexpr double kMaxTheta = 1e12;
  return theta.is_null() ? Status() : ReadPositive(theta, kMaxTheta, &rope->theta);
}

Status ReadRotaryDims(const JsonValue& json, const ModelConfig& config, RopeDescription* rope) {
  if (rope->dims == 0) rope->dims = config.head_dim;
  const JsonValue field = json["partial_rotary_factor"];
  if (field.is_null()) return Status();
  OUTRIDER_ASSIGN(const double factor, field.Number(0, 1));
  rope->dims = static_cast<int>(config.head_dim * factor);
  if (rope->dims >= 2 && rope->dims % 2 == 0) return Status();
  return field.Wrong("above 0 and at most 1, and rotate an even number of the " +
                     std::to_string(config.head_dim) + " values of a head");
}

Status ReadRopeObject(const JsonValue& json, const JsonValue& within, ModelConfig* config,
                      RopeDescription* rope) {
  if (within.is_null()) return Status();
  OUTRIDER_TRY(within.MustBeObject());
  OUTRIDER_TRY(ReadRopeTheta(within["rope_theta"], rope));
  OUTRIDER_TRY(ReadRotaryDims(within, *config, rope));
  const JsonValue type = within[within["rope_type"].is_null() ? "type" : "rope_type"];
  if (type.is_null() || type.Is("default")) return Status();
  if (type.Is("linear")) return ReadLinear(within, rope);
  if (type.Is("dynamic")) return ReadDynamic(within);
  if (type.Is("llama3")) return ReadLlama3(within, rope);
  if (type.Is("yarn")) return ReadYarn(within, config, rope);
  // "su" is its name in the first Phi-3 files.
  if (type.Is("longrope") || type.Is("su")) return ReadLongRope(json, within, *config, rope);
  return type.Unsupported("; supported: default, linear, dynamic, llama3, yarn, longrope");
}

Status ReadRope(const JsonValue& json, ModelConfig* config, RopeDescription* rope) {
  OUTRIDER_TRY(ReadRopeTheta(json["rope_theta"], rope));
  OUTRIDER_TRY(ReadRotaryDims(json, *config, rope));
  const JsonValue scaling = json["rope_scaling"];
  OUTRIDER_TRY(ReadRopeObject(json, scaling, config, rope));
  if (!scaling.is_null() && scaling["rope_type"].is_null() && scaling["type"].is_null()) {
    return scaling["rope_type"].Wrong("a text");
  }
  const JsonValue parameters = json["rope_parameters"];
  for (const char* layers : {"full_attention", "sliding_attention"}) {
    if (!parameters[layers].is_null()) return parameters[layers].Unsupported();
  }
  return ReadRopeObject(json, parameters, config, rope);
}

Status CheckActivation(const JsonValue& json, const char* name) {
  OUTRIDER_TRY(MustBe(json["hidden_act"], name));
  return MustBe(json["hidden_activation"], name);
}

Status ReadAttentionBias(const JsonValue& json, LayerDescription* layer) {
  bool bias = false;
  OUTRIDER_TRY(json["attention_bias"].Read(&bias));
  layer->attention.qkv_bias = layer->attention.out_bias = bias;
  return Status();
}

Status ReadMlpBias(const JsonValue& json, LayerDescription* layer) {
  return json["mlp_bias"].Read(&layer->mlp.bias);
}

Status ReadMixture(const JsonValue& experts, const JsonValue& top_k, const JsonValue& intermediate,
                   MixtureDescription* mixture) {
  constexpr int kMaxExpertIntermediate = 1 << 17;
  OUTRIDER_TRY(experts.Read(&mixture->router.experts, 1, kMaxExperts));
  OUTRIDER_TRY(top_k.Read(&mixture->router.top_k, 1, kMaxExpertsOfARow));
  if (mixture->router.top_k > mixture->router.experts) {
    return top_k.Wrong("at most the number of experts, " + std::to_string(mixture->router.experts));
  }
  return intermediate.Read(&mixture->intermediate_size, 1, kMaxExpertIntermediate);
}

Status DescribeAllLayers(const JsonValue& json, const LayerDescription& layer,
                         ModelConfig* config) {
  config->layers.assign(config->layers.size(), layer);
  const JsonValue types = json["layer_types"];
  if (types.is_null()) return Status();
  OUTRIDER_TRY(types.MustBeArray());
  const char* expected = layer.attention.window > 0 ? "sliding_attention" : "full_attention";
  for (size_t i = 0; i < types.size(); ++i) {
    if (!types[i].Is(expected)) return types[i].Unsupported();
  }
  return Status();
}

Result<std::vector<bool>> ReadSlidingLayers(const JsonValue& types, size_t layers,
                                            const std::function<bool(size_t)>& by_default) {
  if (!types.is_null() && (!types.is_array() || types.size() != layers)) {
    return types.Wrong("a list of num_hidden_layers names");
  }
  std::vector<bool> slides(layers);
  for (size_t i = 0; i < layers; ++i) {
    if (types.is_null()) {
      slides[i] = by_default(i);
      continue;
    }
    slides[i] = types[i].Is("sliding_attention");
    if (!slides[i] && !types[i].Is("full_attention")) return types[i].Unsupported();
  }
  return slides;
}

Status DescribeLayersWithQwenWindows(const JsonValue& json, const LayerDescription& layer,
                                     ModelConfig* config) {
  bool used = false;
  OUTRIDER_TRY(json["use_sliding_window"].Read(&used));
  int window = json["sliding_window"].absent() ? 4096 : 0;
  OUTRIDER_TRY(json["sliding_window"].Read(&window, 1, kMaxPositions));
  if (!used) window = 0;
  int first = 28;
  OUTRIDER_TRY(json["max_window_layers"].Read(&first, 0));
  const JsonValue types = json["layer_types"];
  OUTRIDER_ASSIGN(const std::vector<bool> slides,
                  ReadSlidingLayers(types, config->layers.size(), [&](size_t i) {
                    return window > 0 && i >= static_cast<size_t>(first);
                  }));
  for (size_t i = 0; i < slides.size(); ++i) {
    if (slides[i] && window == 0) {
      return types[i].Unsupported(" without use_sliding_window and sliding_window");
    }
    config->layers[i] = layer;
    config->layers[i].attention.window = slides[i] ? window : 0;
  }
  return Status();
}

}  // namespace outrider
