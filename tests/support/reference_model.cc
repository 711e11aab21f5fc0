#include "tests/support/reference_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace outrider {
namespace {

using Json = nlohmann::json;

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

size_t BytesOf(const std::string& dtype) {
  if (dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  return dtype == "I8" || dtype == "U8" || dtype == "F8_E4M3" ? 1 : 2;
}

template <class T>
double Read(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

double Widen(const std::string& dtype, const char* bytes) {
  if (dtype == "I8") return static_cast<signed char>(*bytes);
  if (dtype == "U8") return static_cast<unsigned char>(*bytes);
  if (dtype == "I64") return Read<int64_t>(bytes);
  if (dtype == "I32") return Read<uint32_t>(bytes);
  if (dtype == "F32") return Read<float>(bytes);
  if (dtype == "F8_E4M3") {
    const auto code = static_cast<unsigned char>(*bytes);
    const int exponent = code >> 3 & 15;
    const double magnitude =
        exponent == 0 ? std::ldexp(code & 7, -9) : std::ldexp(8 + (code & 7), exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes, 2);
  const int exponent_bits = dtype == "BF16" ? 8 : 5;
  if (dtype != "BF16" && dtype != "F16") throw std::runtime_error("dtype " + dtype);
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(bits & ((1 << mantissa_bits) - 1), -mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return bits >> 15 ? -magnitude : magnitude;
}

bool Set(const Json& json, const char* name) {
  return json.contains(name) && !json[name].is_null();
}

double Llama3(const Json& scaling, double frequency) {
  const double factor = scaling["factor"];
  const double low = scaling["low_freq_factor"];
  const double high = scaling["high_freq_factor"];
  const double original = scaling["original_max_position_embeddings"];
  const double wavelength = 2 * M_PI / frequency;
  if (wavelength > original / low) return frequency / factor;
  if (wavelength <= original / high) return frequency;
  const double smooth = (original / wavelength - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// The fraction of its frequency that a pair keeps.
double YarnKeeps(const Json& scaling, double original, double theta, int dims, int pair) {
  // The pair whose wavelength fits n times into the original context, as a real number.
  const auto pair_of = [&](double n) {
    return std::log(original / (2 * M_PI * n)) / std::log(theta) * dims / 2;
  };
  double first = pair_of(scaling.value("beta_fast", 32.0));
  double last = pair_of(scaling.value("beta_slow", 1.0));
  if (scaling.value("truncate", true)) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, dims - 1.0);
  return 1 - std::min(std::max((pair - first) / (last - first), 0.0), 1.0);
}

}  // namespace

ReferenceModel::ReferenceModel(const std::filesystem::path& directory) {
  ReadConfig(directory / "config.json");
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  std::set<std::string> shards = {"model.safetensors"};
  if (std::filesystem::exists(index)) {
    shards.clear();
    const Json listed = Json::parse(ReadAll(index))["weight_map"];
    for (const auto& [tensor, shard] : listed.items()) shards.insert(shard);
  }
  for (const std::string& shard : shards) ReadWeights(directory / shard);
  const Json config = Json::parse(ReadAll(directory / "config.json"));
  if (Set(config, "quantization_config")) {
    DequantizeTensors(config["quantization_config"], &tensors_);
  }
}

void ReferenceModel::ReadConfig(const std::filesystem::path& path) {
  const Json config = Json::parse(ReadAll(path));
  const std::string name = config["architectures"][0];
  vocab_ = config["vocab_size"];
  intermediate_ = config["intermediate_size"];
  layers_.resize(config["num_hidden_layers"].get<size_t>());
  heads_ = config["num_attention_heads"];
  kv_heads_ =
      Set(config, "num_key_value_heads") ? config["num_key_value_heads"].get<int>() : heads_;
  head_dim_ = Set(config, "head_dim") ? config["head_dim"].get<int>()
                                      : config["hidden_size"].get<int>() / heads_;
  eps_ = Set(config, "rms_norm_eps") ? config["rms_norm_eps"].get<double>() : 1e-6;
  score_scale_ = 1 / std::sqrt(head_dim_);
  ReadArchitecture(config, name);
  tied_ = config.value("tie_word_embeddings", tied_);
  ReadMixtures(config, name);
  ReadWindows(config, name);
  ReadRopes(config, name);
}

void ReferenceModel::ReadMixtures(const Json& config, const std::string& name) {
  if (name == "MixtralForCausalLM") {
    mixture_ = {"block_sparse_moe.", "w1", "w3", "w2"};
    for (Layer& layer : layers_) layer.mixture = true;
  } else if (name == "Qwen3MoeForCausalLM") {
    mixture_ = {"mlp.", "gate_proj", "up_proj", "down_proj"};
    mixture_.normalize = config.value("norm_topk_prob", false);
    const std::vector<size_t> dense = config.value("mlp_only_layers", std::vector<size_t>());
    for (size_t i = 0; i < layers_.size(); ++i) {
      layers_[i].mixture = std::count(dense.begin(), dense.end(), i) == 0 &&
                           (i + 1) % config.value("decoder_sparse_step", size_t{1}) == 0;
    }
  } else if (name == "GptOssForCausalLM") {
    mixture_ = {.block = "mlp.", .router = "router", .stacked = true};
    for (Layer& layer : layers_) layer.mixture = true;
  } else {
    return;
  }
  mixture_.top_k = config["num_experts_per_tok"];
}

void ReferenceModel::ReadArchitecture(const Json& config, const std::string& name) {
  if (name == "Gemma2ForCausalLM" || name == "Gemma3ForCausalLM") {
    ReadGemma(config, name == "Gemma3ForCausalLM");
  } else if (name == "Olmo2ForCausalLM") {
    norms_ = {"", "post_attention_layernorm", "", "post_feedforward_layernorm"};
  } else if (name == "GraniteForCausalLM") {
    ReadGranite(config);
  } else if (name == "SmolLM3ForCausalLM") {
    tied_ = true;
  }
}

void ReferenceModel::ReadGemma(const Json& config, bool third) {
  norms_ = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
            "post_feedforward_layernorm"};
  gain_offset_ = 1;
  gelu_ = tied_ = true;
  score_scale_ = 1 / std::sqrt(config["query_pre_attn_scalar"].get<double>());
  if (Set(config, "final_logit_softcapping")) logit_cap_ = config["final_logit_softcapping"];
  if (!third) score_cap_ = config["attn_logit_softcapping"];
  // Rounds to bfloat16, whose mantissa has eight bits, by the exponent of the root.
  embedding_scale_ = std::sqrt(config["hidden_size"].get<double>());
  const double step = std::exp2(std::floor(std::log2(embedding_scale_)) - 7);
  if (config["torch_dtype"] == "bfloat16") {
    embedding_scale_ = std::nearbyint(embedding_scale_ / step) * step;
  }
}

void ReferenceModel::ReadGranite(const Json& config) {
  embedding_scale_ = config["embedding_multiplier"];
  score_scale_ = config["attention_multiplier"];
  residual_scale_ = config["residual_multiplier"];
  logit_scale_ = 1 / config["logits_scaling"].get<double>();
}

void ReferenceModel::ReadWindows(const Json& config, const std::string& name) {
  const int window = Set(config, "sliding_window") ? config["sliding_window"].get<int>() : 0;
  const bool used = config.value("use_sliding_window", false);
  for (size_t i = 0; i < layers_.size(); ++i) {
    bool slides =
        name == "MistralForCausalLM" || name == "MixtralForCausalLM" || name == "Phi3ForCausalLM";
    if (name == "GptOssForCausalLM") slides = i % 2 == 0;
    if (name == "Gemma2ForCausalLM") slides = i % 2 == 0;
    if (name == "Gemma3ForCausalLM") {
      slides = (i + 1) % config.value("sliding_window_pattern", size_t{6}) > 0;
    }
    if (name == "Qwen2ForCausalLM" || name == "Qwen3ForCausalLM") {
      slides = used && i >= config["max_window_layers"].get<size_t>();
    }
    if (name == "Qwen3MoeForCausalLM") slides = used;
    if (Set(config, "layer_types")) slides = config["layer_types"][i] == "sliding_attention";
    layers_[i].window = slides ? window : 0;
  }
}

void ReferenceModel::ReadRopes(const Json& config, const std::string& name) {
  Json scaling = Json::object();
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    if (Set(config, field)) scaling = config[field];
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    Rope& rope = layers_[i].rope;
    if (name == "Gemma3ForCausalLM") {
      const bool local = layers_[i].window > 0;
      const double theta =
          local ? config.value("rope_local_base_freq", 1e4) : config.value("rope_theta", 1e6);
      Json own = local ? Json::object() : scaling;
      if (scaling.contains("full_attention")) {
        own = scaling[local ? "sliding_attention" : "full_attention"];
      }
      rope = ReadRope(config, own, theta);
    } else {
      const double theta = name == "SmolLM3ForCausalLM" ? 2e6 : 1e4;
      rope = ReadRope(config, scaling, config.value("rope_theta", theta));
    }
    if (name == "SmolLM3ForCausalLM") {
      const bool rotates =
          Set(config, "no_rope_layers") ? config["no_rope_layers"][i] == 1 : i % 4 != 3;
      if (!rotates) rope = {};
    }
  }
}

ReferenceModel::Rope ReferenceModel::ReadRope(const Json& config, const Json& scaling,
                                              double theta) const {
  theta = scaling.value("rope_theta", theta);
  const double part =
      scaling.value("partial_rotary_factor", config.value("partial_rotary_factor", 1.0));
  const int dims = static_cast<int>(head_dim_ * part);
  const std::string type = scaling.value("rope_type", scaling.value("type", "default"));
  const double longest = config["max_position_embeddings"];
  const double original = config.value("original_max_position_embeddings",
                                       scaling.value("original_max_position_embeddings", longest));
  const double factor = scaling.value("factor", longest / original);
  Rope rope;
  for (int i = 0; i < dims; i += 2) {
    double frequency = 1 / std::pow(theta, static_cast<double>(i) / dims);
    if (type == "linear") frequency /= factor;
    if (type == "llama3") frequency = Llama3(scaling, frequency);
    if (type == "yarn") {
      const double kept = YarnKeeps(scaling, original, theta, dims, i / 2);
      frequency = kept * frequency + (1 - kept) * frequency / factor;
    }
    if (type == "longrope") {
      const char* which = longest > original ? "long_factor" : "short_factor";
      frequency /= scaling[which][static_cast<size_t>(i / 2)].get<double>();
    }
    rope.frequencies.push_back(frequency);
  }
  const double log = factor > 1 ? std::log(factor) : 0;
  if (type == "longrope") rope.factor = std::sqrt(1 + log / std::log(original));
  if (type == "yarn") {
    rope.factor = 1 + log / 10;
    if (scaling.contains("mscale")) {
      rope.factor = (1 + scaling["mscale"].get<double>() * log / 10) /
                    (1 + scaling["mscale_all_dim"].get<double>() * log / 10);
    }
  }
  rope.factor = scaling.value("attention_factor", rope.factor);
  return rope;
}

void ReferenceModel::SetRopeTheta(int layer, double theta) {
  Vector& frequencies = layers_[static_cast<size_t>(layer)].rope.frequencies;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = 1 / std::pow(theta, 2.0 * static_cast<double>(i) / head_dim_);
  }
}

void ReferenceModel::ReadWeights(const std::filesystem::path& path) {
  const std::string file = ReadAll(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  const Json header = Json::parse(file.substr(8, header_bytes));
  const char* data = file.data() + 8 + header_bytes;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string dtype = entry["dtype"];
    const size_t begin = entry["data_offsets"][0];
    const size_t end = entry["data_offsets"][1];
    WideTensor& tensor = tensors_[name];
    tensor.shape = entry["shape"].get<std::vector<int64_t>>();
    Vector& weight = tensor.values;
    for (size_t offset = begin; offset < end; offset += BytesOf(dtype)) {
      weight.push_back(Widen(dtype, data + offset));
    }
  }
}

const ReferenceModel::Vector& ReferenceModel::Weight(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::runtime_error("no tensor " + name);
  return found->second.values;
}

ReferenceModel::Vector ReferenceModel::Linear(const std::string& name, const Vector& x) const {
  const Vector& weight = Weight(name + ".weight");
  Vector y(weight.size() / x.size());
  for (size_t row = 0; row < y.size(); ++row) {
    for (size_t i = 0; i < x.size(); ++i) y[row] += weight[row * x.size() + i] * x[i];
  }
  if (const auto bias = tensors_.find(name + ".bias"); bias != tensors_.end()) {
    for (size_t row = 0; row < y.size(); ++row) y[row] += bias->second.values[row];
  }
  return y;
}

// `x` may be several vectors of the gain's length, which are normalised separately.
ReferenceModel::Vector ReferenceModel::Norm(const Vector& x, const Vector& gain) const {
  Vector y(x.size());
  const size_t n = gain.size();
  for (size_t begin = 0; begin < x.size(); begin += n) {
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += x[begin + i] * x[begin + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + eps_);
    for (size_t i = 0; i < n; ++i) y[begin + i] = x[begin + i] * scale * (gain[i] + gain_offset_);
  }
  return y;
}

ReferenceModel::Vector ReferenceModel::NormNamed(const Vector& x, const std::string& prefix,
                                                 const std::string& suffix) const {
  return suffix.empty() ? x : Norm(x, Weight(prefix + suffix + ".weight"));
}

std::vector<ReferenceModel::Vector> ReferenceModel::Project(const std::string& prefix,
                                                            const std::string& fused,
                                                            const std::vector<std::string>& names,
                                                            const std::vector<size_t>& sizes,
                                                            const Vector& x) const {
  std::vector<Vector> parts;
  if (tensors_.count(prefix + fused + ".weight") == 0) {
    for (const std::string& name : names) parts.push_back(Linear(prefix + name, x));
    return parts;
  }
  const Vector all = Linear(prefix + fused, x);
  auto begin = all.begin();
  for (const size_t size : sizes) {
    parts.emplace_back(begin, begin + static_cast<ptrdiff_t>(size));
    begin += static_cast<ptrdiff_t>(size);
  }
  return parts;
}

double ReferenceModel::Activate(double x) const {
  if (!gelu_) return x / (1 + std::exp(-x));
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Rotates (x[i], x[i + half]) of every head in a plane, for the head's first 2 * half values.
void ReferenceModel::Rotate(const Rope& rope, Vector& heads, int position) const {
  const size_t half = rope.frequencies.size();
  for (size_t begin = 0; begin < heads.size(); begin += static_cast<size_t>(head_dim_)) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = position * rope.frequencies[i];
      const double a = heads[begin + i];
      const double b = heads[begin + half + i];
      heads[begin + i] = rope.factor * (a * std::cos(angle) - b * std::sin(angle));
      heads[begin + half + i] = rope.factor * (b * std::cos(angle) + a * std::sin(angle));
    }
  }
}

// OCP E4M3: eight steps from each power of two to the next, from 2^-6 on; equal steps below.
void ReferenceModel::RoundToFp8(const std::string& scale, Vector& row) const {
  constexpr double kLargest = 448;
  const auto found = tensors_.find(scale);
  const double unit = found == tensors_.end() ? 1 : found->second.values[0];
  double largest = 0;
  for (const double x : row) largest = std::max(largest, std::fabs(x));
  for (double& x : row) {
    const double magnitude = std::fabs(x) / unit;
    double rounded = kLargest;
    if (magnitude < kLargest) {
      const double step = std::exp2(std::max(std::floor(std::log2(magnitude)), -6.0) - 3);
      const double steps = magnitude / step;
      rounded = std::nearbyint(steps) * step;
      const double to_border = std::fabs(steps - std::floor(steps) - 0.5) * step;
      code_margin_ = std::min(code_margin_, to_border * unit / largest);
    }
    x = std::copysign(rounded * unit, x);
  }
}

ReferenceModel::Vector ReferenceModel::Attend(int window, const Vector* sinks, const Vector& query,
                                              const std::vector<Vector>& keys,
                                              const std::vector<Vector>& values) const {
  const auto dim = static_cast<size_t>(head_dim_);
  const auto seen = static_cast<size_t>(window);
  const size_t first = seen > 0 && keys.size() > seen ? keys.size() - seen : 0;
  Vector out(query.size());
  for (size_t head = 0; head < static_cast<size_t>(heads_); ++head) {
    const size_t kv = head / static_cast<size_t>(heads_ / kv_heads_) * dim;
    Vector weights;
    double sum = sinks == nullptr ? 0 : std::exp((*sinks)[head]);
    for (size_t t = first; t < keys.size(); ++t) {
      double dot = 0;
      for (size_t i = 0; i < dim; ++i) dot += query[head * dim + i] * keys[t][kv + i];
      double score = dot * score_scale_;
      if (score_cap_ > 0) score = score_cap_ * std::tanh(score / score_cap_);
      weights.push_back(std::exp(score));
      sum += weights.back();
    }
    for (size_t t = first; t < keys.size(); ++t) {
      for (size_t i = 0; i < dim; ++i) {
        out[head * dim + i] += weights[t - first] / sum * values[t][kv + i];
      }
    }
  }
  return out;
}

void ReferenceModel::AddAttention(int layer, std::vector<Vector>& states) const {
  const Layer& described = layers_[static_cast<size_t>(layer)];
  const std::string name = "model.layers." + std::to_string(layer) + ".";
  const std::string attention = name + "self_attn.";
  const bool norm_qk = tensors_.count(attention + "q_norm.weight") > 0;
  const size_t kv = static_cast<size_t>(kv_heads_) * static_cast<size_t>(head_dim_);
  const size_t q = static_cast<size_t>(heads_) * static_cast<size_t>(head_dim_);
  const auto sink = tensors_.find(attention + "sinks");
  const Vector* const sinks = sink == tensors_.end() ? nullptr : &sink->second.values;
  std::vector<Vector> keys;
  std::vector<Vector> values;
  for (size_t t = 0; t < states.size(); ++t) {
    const Vector x = NormNamed(states[t], name, norms_.attention);
    std::vector<Vector> qkv =
        Project(attention, "qkv_proj", {"q_proj", "k_proj", "v_proj"}, {q, kv, kv}, x);
    for (size_t i = 0; i < 2; ++i) {
      if (norm_qk) qkv[i] = NormNamed(qkv[i], attention, i == 0 ? "q_norm" : "k_norm");
      Rotate(described.rope, qkv[i], static_cast<int>(t));
    }
    if (rounds_kv_) {
      RoundToFp8(attention + "k_scale", qkv[1]);
      RoundToFp8(attention + "v_scale", qkv[2]);
    }
    keys.push_back(qkv[1]);
    values.push_back(qkv[2]);
    const Vector attended =
        Linear(attention + "o_proj", Attend(described.window, sinks, qkv[0], keys, values));
    const Vector result = NormNamed(attended, name, norms_.attention_after);
    for (size_t i = 0; i < result.size(); ++i) states[t][i] += residual_scale_ * result[i];
  }
}

ReferenceModel::Vector ReferenceModel::Mlp(const std::string& name, const Vector& x) const {
  const auto width = static_cast<size_t>(intermediate_);
  std::vector<Vector> both =
      Project(name + "mlp.", "gate_up_proj", {"gate_proj", "up_proj"}, {width, width}, x);
  for (size_t i = 0; i < width; ++i) both[0][i] = Activate(both[0][i]) * both[1][i];
  return Linear(name + "mlp.down_proj", both[0]);
}

// Repeatedly takes the largest of the rest, the first one among equals.
std::vector<std::pair<size_t, double>> ReferenceModel::Choose(const Vector& logits) const {
  Vector left = logits;
  std::vector<std::pair<size_t, double>> chosen;
  double chosen_sum = 0, all_sum = 0;
  for (const double logit : logits) all_sum += std::exp(logit);
  while (chosen.size() < mixture_.top_k) {
    const auto largest = std::max_element(left.begin(), left.end());
    chosen.emplace_back(largest - left.begin(), std::exp(*largest));
    chosen_sum += std::exp(*largest);
    *largest = -HUGE_VAL;
  }
  for (auto& [expert, weight] : chosen) weight /= mixture_.normalize ? chosen_sum : all_sum;
  return chosen;
}

ReferenceModel::Vector ReferenceModel::Mix(const std::string& name, const Vector& x) const {
  const std::string block = name + mixture_.block;
  Vector sum(x.size());
  for (const auto& [expert, weight] : Choose(Linear(block + mixture_.router, x))) {
    if (mixture_.stacked) {
      const Vector returned = StackedExpert(block + "experts.", expert, x);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * returned[i];
      continue;
    }
    const std::string expert_name = block + "experts." + std::to_string(expert) + ".";
    Vector gated = Linear(expert_name + mixture_.gate, x);
    const Vector up = Linear(expert_name + mixture_.up, x);
    for (size_t i = 0; i < gated.size(); ++i) gated[i] = Activate(gated[i]) * up[i];
    const Vector returned = Linear(expert_name + mixture_.down, gated);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * returned[i];
  }
  return sum;
}

// y = x W + b with W [inputs, outputs], for one expert of `name`.
ReferenceModel::Vector ReferenceModel::StackedLinear(const std::string& name, size_t expert,
                                                     const Vector& x) const {
  const WideTensor& w = tensors_.at(name);
  const auto outputs = static_cast<size_t>(w.shape[2]);
  const Vector& bias = Weight(name + "_bias");
  Vector y(outputs);
  for (size_t o = 0; o < outputs; ++o) {
    y[o] = bias[expert * outputs + o];
    for (size_t i = 0; i < x.size(); ++i) {
      y[o] += x[i] * w.values[(expert * x.size() + i) * outputs + o];
    }
  }
  return y;
}

// transformers/models/gpt_oss/modeling_gpt_oss.py, GptOssExperts: even outputs are gates.
ReferenceModel::Vector ReferenceModel::StackedExpert(const std::string& experts, size_t expert,
                                                     const Vector& x) const {
  const Vector both = StackedLinear(experts + "gate_up_proj", expert, x);
  Vector gated(both.size() / 2);
  for (size_t i = 0; i < gated.size(); ++i) {
    const double gate = std::min(both[2 * i], 7.0);
    const double up = std::max(std::min(both[2 * i + 1], 7.0), -7.0);
    gated[i] = (up + 1) * gate / (1 + std::exp(-1.702 * gate));
  }
  return StackedLinear(experts + "down_proj", expert, gated);
}

void ReferenceModel::AddMlp(int layer, std::vector<Vector>& states) const {
  const std::string name = "model.layers." + std::to_string(layer) + ".";
  const bool mixture = layers_[static_cast<size_t>(layer)].mixture;
  for (Vector& state : states) {
    const Vector x = NormNamed(state, name, norms_.mlp);
    const Vector result = NormNamed(mixture ? Mix(name, x) : Mlp(name, x), name, norms_.mlp_after);
    for (size_t i = 0; i < result.size(); ++i) state[i] += residual_scale_ * result[i];
  }
}

std::vector<std::vector<double>> ReferenceModel::Logits(const std::vector<int32_t>& tokens) const {
  code_margin_ = HUGE_VAL;
  const Vector& embedding = Weight("model.embed_tokens.weight");
  const size_t hidden = embedding.size() / static_cast<size_t>(vocab_);
  std::vector<Vector> states;
  for (const int32_t token : tokens) {
    const auto row = embedding.begin() + static_cast<ptrdiff_t>(hidden) * token;
    states.emplace_back(row, row + static_cast<ptrdiff_t>(hidden));
    for (double& x : states.back()) x *= embedding_scale_;
  }
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    AddAttention(static_cast<int>(layer), states);
    AddMlp(static_cast<int>(layer), states);
  }
  std::vector<Vector> logits;
  for (const Vector& state : states) {
    const Vector x = Norm(state, Weight("model.norm.weight"));
    logits.push_back(Linear(tied_ ? "model.embed_tokens" : "lm_head", x));
    for (double& logit : logits.back()) {
      logit *= logit_scale_;
      if (logit_cap_ > 0) logit = logit_cap_ * std::tanh(logit / logit_cap_);
    }
  }
  return logits;
}

}  // namespace outrider
